// Package compute knows what GPUs and models cost: GPU profiles with fitted
// kernel classes, the model catalogue, and the time of every part of a layer on
// one attention rank.
package compute
