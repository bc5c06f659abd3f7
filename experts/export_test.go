package experts

// HitOf is hitUniform of consecutive experts, for tests that import packages
// which import this one.
var HitOf = hitOf
