// Package compute knows what GPUs and models cost: how long the kernels of a
// layer take on a GPU, how the layers of a model are made of kernels, and what
// weights and KV take of a GPU's memory. It has no clock and no events; serving
// asks it for times.
//
// # From kernels to layers
//
// A Profile (profiles/*.yaml) is a GPU with its fitted kernel classes. A class
// is a closed form of at most six constants,
//
//	t = t0 + (Tc^3 + Tm^3)^(1/3)
//
// a fixed time and a smooth maximum of compute time and memory time; GEMM,
// AttentionDecode, AttentionPrefill and Elementwise document theirs. The
// constants come with what they were fitted to and how far off they are: the
// median error of a class is 1 to 10 %, its 95th percentile 6 to 28 %, and two
// laboratories that measure the same small GEMM on the same H800 differ by 1.16
// to 1.56 times. No sum of kernels is better than that.
//
// A Model (models/*.yaml, or any config.json of Hugging Face: huggingface.go) is
// the structure that a config.json states. Counts of parameters and KV bytes
// follow from it exactly. docs/models.md says how such a file is read.
//
// A Rank is a model on the GPUs of one attention rank. Prefill and Decode give
// the parts of its layers, Experts the routed experts of one layer; serving adds
// communication and overlaps the two. Every part is a list of kernels in
// assembly.go: GEMMs by shape, everything else by the bytes that it moves.
//
// # How good it is
//
// With unit communication times and the overlap that each system uses, six
// published throughputs are met within 5 % (targets_test.go): DeepSeek-V3 prefill
// and decode on H800 +0.7 % and +5.0 %, Qwen3-30B-A3B on H20 +1.1 % and -0.8 %,
// Qwen3-8B-FP8 on H20 +0.1 % and -1.3 %. With each class scaled by its held-out
// error the spread per target is 1.3 to 5.8 %, so claim no more than 5 %.
//
// # What is not modelled
//
// All-reduce, dispatch and combine (collective), multi-token-prediction modules
// (neither their time nor their weights), pipeline parallelism, experts sharded
// by TP, and power or clock throttling. Expert popularity enters as one number,
// the imbalance of the busiest GPU; the rows of a GPU are spread evenly over its
// active experts.
//
// # Determinism
//
// Times are pure functions of their arguments. They use +, -, *, / and rounding
// only, and every product is rounded before it is added, so that all CPUs give
// the same picosecond.
package compute
