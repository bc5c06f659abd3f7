package metrics

import "github.com/tgssim/tgssim/serving"

// A Summary is a run in one flat JSON object: vLLM's benchmark keys (vllm bench
// serve, --save-result) with vLLM's meaning, then ours, with the unit in the
// name where it is not a count, a share or TGS (tokens per GPU per second). A
// pointer is nil, and its key null, when the value is undefined: no NaN, no
// infinity, no zero that stands for "unknown". docs/metrics.md defines every
// key.
type Summary struct {
	// vLLM's keys. Duration is in seconds; throughputs are per second.
	Duration              float64  `json:"duration"`
	Completed             int      `json:"completed"`
	Failed                int      `json:"failed"`
	TotalInputTokens      int64    `json:"total_input_tokens"`
	TotalOutputTokens     int64    `json:"total_output_tokens"`
	RequestThroughput     *float64 `json:"request_throughput"`
	RequestGoodput        *float64 `json:"request_goodput"`
	OutputThroughput      *float64 `json:"output_throughput"`
	TotalTokenThroughput  *float64 `json:"total_token_throughput"`
	MaxOutputTokensPerS   int64    `json:"max_output_tokens_per_s"`
	MaxConcurrentRequests int      `json:"max_concurrent_requests"`

	// TTFT: time to first token, in milliseconds.
	MeanTTFT   *float64 `json:"mean_ttft_ms"`
	MedianTTFT *float64 `json:"median_ttft_ms"`
	StdTTFT    *float64 `json:"std_ttft_ms"`
	P90TTFT    *float64 `json:"p90_ttft_ms"`
	P95TTFT    *float64 `json:"p95_ttft_ms"`
	P99TTFT    *float64 `json:"p99_ttft_ms"`
	MaxTTFT    *float64 `json:"max_ttft_ms"`

	// TTFTPrefill: arrival to the end of prefill, in milliseconds.
	MeanTTFTPrefill   *float64 `json:"mean_ttft_prefill_only_ms"`
	MedianTTFTPrefill *float64 `json:"median_ttft_prefill_only_ms"`
	StdTTFTPrefill    *float64 `json:"std_ttft_prefill_only_ms"`
	P90TTFTPrefill    *float64 `json:"p90_ttft_prefill_only_ms"`
	P95TTFTPrefill    *float64 `json:"p95_ttft_prefill_only_ms"`
	P99TTFTPrefill    *float64 `json:"p99_ttft_prefill_only_ms"`
	MaxTTFTPrefill    *float64 `json:"max_ttft_prefill_only_ms"`

	// TPOT: time per output token after the first, in milliseconds.
	MeanTPOT   *float64 `json:"mean_tpot_ms"`
	MedianTPOT *float64 `json:"median_tpot_ms"`
	StdTPOT    *float64 `json:"std_tpot_ms"`
	P90TPOT    *float64 `json:"p90_tpot_ms"`
	P95TPOT    *float64 `json:"p95_tpot_ms"`
	P99TPOT    *float64 `json:"p99_tpot_ms"`
	MaxTPOT    *float64 `json:"max_tpot_ms"`

	// ITL: pooled gaps between tokens, in milliseconds.
	MeanITL   *float64 `json:"mean_itl_ms"`
	MedianITL *float64 `json:"median_itl_ms"`
	StdITL    *float64 `json:"std_itl_ms"`
	P90ITL    *float64 `json:"p90_itl_ms"`
	P95ITL    *float64 `json:"p95_itl_ms"`
	P99ITL    *float64 `json:"p99_itl_ms"`
	MaxITL    *float64 `json:"max_itl_ms"`

	// E2E: end-to-end latency, in milliseconds.
	MeanE2E   *float64 `json:"mean_e2el_ms"`
	MedianE2E *float64 `json:"median_e2el_ms"`
	StdE2E    *float64 `json:"std_e2el_ms"`
	P90E2E    *float64 `json:"p90_e2el_ms"`
	P95E2E    *float64 `json:"p95_e2el_ms"`
	P99E2E    *float64 `json:"p99_e2el_ms"`
	MaxE2E    *float64 `json:"max_e2el_ms"`

	// KVTransfer: posting to arrival of KV transfers, in milliseconds.
	MeanKVTransfer   *float64 `json:"mean_kv_transfer_ms"`
	MedianKVTransfer *float64 `json:"median_kv_transfer_ms"`
	StdKVTransfer    *float64 `json:"std_kv_transfer_ms"`
	P90KVTransfer    *float64 `json:"p90_kv_transfer_ms"`
	P95KVTransfer    *float64 `json:"p95_kv_transfer_ms"`
	P99KVTransfer    *float64 `json:"p99_kv_transfer_ms"`
	MaxKVTransfer    *float64 `json:"max_kv_transfer_ms"`

	// The load.
	RequestsArrived      int      `json:"requests_arrived"`
	RequestsRejected     int      `json:"requests_rejected"`
	RequestsUnfinished   int      `json:"requests_unfinished"`
	PeakRequestsInSystem int      `json:"peak_requests_in_system"`
	MeasuredRequests     int64    `json:"measured_requests"`
	ITLSamples           int64    `json:"itl_samples"`
	FirstArrival         *float64 `json:"first_arrival_s"`
	LastArrival          *float64 `json:"last_arrival_s"`
	End                  *float64 `json:"end_s"`
	SteadyStart          *float64 `json:"steady_start_s"`
	SteadyEnd            *float64 `json:"steady_end_s"`
	OfferedRate          *float64 `json:"offered_rate_req_per_s"`
	ServedRate           *float64 `json:"served_rate_req_per_s"`
	OfferedPromptTokens  *float64 `json:"offered_prompt_tokens_per_s"`
	OfferedOutputTokens  *float64 `json:"offered_output_tokens_per_s"`
	PrefilledTokens      int64    `json:"prefilled_tokens"`
	EmittedOutputTokens  int64    `json:"emitted_output_tokens"`

	// TGS by each denominator, over the whole run and over the steady window.
	GPUs                 int      `json:"gpus"`
	PrefillGPUs          int      `json:"prefill_gpus"`
	DecodeGPUs           int      `json:"decode_gpus"`
	TGS                  *float64 `json:"tgs"`
	TGSSteady            *float64 `json:"tgs_steady"`
	TGSPrefill           *float64 `json:"tgs_prefill"`
	TGSPrefillSteady     *float64 `json:"tgs_prefill_steady"`
	TGSDecode            *float64 `json:"tgs_decode"`
	TGSDecodeSteady      *float64 `json:"tgs_decode_steady"`
	TGSOffered           *float64 `json:"tgs_offered"`
	TGSWithoutFabricWait *float64 `json:"tgs_without_fabric_wait"`
	TGSPerfectFabric     *float64 `json:"tgs_perfect_fabric"`
	BatchPerDecodeGPU    *float64 `json:"batch_per_decode_gpu"`
	BatchOverTPOT        *float64 `json:"batch_over_tpot"`
	SecondsPerToken      *float64 `json:"seconds_per_token"`
	TokensPerUser        *float64 `json:"tokens_per_s_per_user"`

	// Stability: how even TGS is in the steady window, over 100 ms, and how long
	// bursts of arrivals are felt.
	TGSVariation      *float64 `json:"tgs_cv_100ms"`
	TGSWorst          *float64 `json:"tgs_worst_100ms"`
	Bursts            int      `json:"bursts"`
	BurstsUnrecovered int      `json:"bursts_unrecovered"`
	BurstRecovery     *float64 `json:"burst_recovery_ms"`

	// The SLO.
	SLOAttainment *float64 `json:"slo_attainment"`
	SLOMet        *bool    `json:"slo_met"`

	// Where the time went.
	*TTFTShares
	*TTFTTailShares
	KVTransferShare     *float64 `json:"kv_transfer_share_ttft"`
	KVTransferTailShare *float64 `json:"kv_transfer_tail_share_ttft"`
	*GPUTimePrefill
	*GPUTimeDecode
	ExposedCommPrefill *float64 `json:"exposed_comm_share_prefill"`
	ExposedCommDecode  *float64 `json:"exposed_comm_share_decode"`
	FabricWaitPrefill  *float64 `json:"fabric_wait_share_prefill"`
	FabricWaitDecode   *float64 `json:"fabric_wait_share_decode"`
	*CommSharesPrefill
	*CommSharesDecode
	*AllToAllPrefill
	*AllToAllDecode
	*ExpertLoadPrefill
	*ExpertLoadDecode
	StepsPrefill         int      `json:"steps_prefill"`
	StepsDecode          int      `json:"steps_decode"`
	TwoBatchStepsPrefill int      `json:"two_batch_steps_prefill"`
	TwoBatchStepsDecode  int      `json:"two_batch_steps_decode"`
	PrefillBusy          *float64 `json:"prefill_busy"`
	PeakKVPrefill        *float64 `json:"peak_kv_share_prefill"`
	PeakKVDecode         *float64 `json:"peak_kv_share_decode"`

	// The fabric.
	KVTransfers      int      `json:"kv_transfers"`
	KVBytes          int64    `json:"kv_bytes"`
	MeanUtilNVLink   *float64 `json:"mean_util_nvlink"`
	MaxUtilNVLink    *float64 `json:"max_util_nvlink"`
	MeanUtilNICUp    *float64 `json:"mean_util_nic_up"`
	MaxUtilNICUp     *float64 `json:"max_util_nic_up"`
	MeanUtilNICDown  *float64 `json:"mean_util_nic_down"`
	MaxUtilNICDown   *float64 `json:"max_util_nic_down"`
	MeanUtilLeafUp   *float64 `json:"mean_util_leaf_up"`
	MaxUtilLeafUp    *float64 `json:"max_util_leaf_up"`
	MeanUtilLeafDown *float64 `json:"mean_util_leaf_down"`
	MaxUtilLeafDown  *float64 `json:"max_util_leaf_down"`
	JFIUplinks       *float64 `json:"jfi_uplinks"`
	MMRUplinks       *float64 `json:"mmr_uplinks"`
	JFIDecodeTokens  *float64 `json:"jfi_decode_tokens"`
	JFIDecodeKVBytes *float64 `json:"jfi_decode_kv_bytes"`
	*Ports                    // nil but in the packet engine

	// The verdicts.
	ServedOverOffered  *float64 `json:"served_over_offered"`
	Saturation         string   `json:"saturation"`
	SaturationEvidence string   `json:"saturation_evidence"`
	NetworkVerdict     string   `json:"network_verdict"`
	NetworkAnswer      string   `json:"network_answer"`
}

// TTFTShares is the split of the TTFT of all measured requests; it sums to 1.
type TTFTShares struct {
	Queue          float64 `json:"ttft_share_queue"`
	PrefillCompute float64 `json:"ttft_share_prefill_compute"`
	PrefillComm    float64 `json:"ttft_share_prefill_comm"`
	DecodeMemory   float64 `json:"ttft_share_decode_memory"`
	TransferPost   float64 `json:"ttft_share_transfer_post"`
	TransferWire   float64 `json:"ttft_share_transfer_wire"`
	TransferQueue  float64 `json:"ttft_share_transfer_queue"`
	DecodeWait     float64 `json:"ttft_share_decode_wait"`
	DecodeCompute  float64 `json:"ttft_share_decode_compute"`
	DecodeComm     float64 `json:"ttft_share_decode_comm"`
	DecodeHost     float64 `json:"ttft_share_decode_host"`
}

// TTFTTailShares is the split of the TTFT of the slowest requests.
type TTFTTailShares struct {
	Queue          float64 `json:"ttft_tail_share_queue"`
	PrefillCompute float64 `json:"ttft_tail_share_prefill_compute"`
	PrefillComm    float64 `json:"ttft_tail_share_prefill_comm"`
	DecodeMemory   float64 `json:"ttft_tail_share_decode_memory"`
	TransferPost   float64 `json:"ttft_tail_share_transfer_post"`
	TransferWire   float64 `json:"ttft_tail_share_transfer_wire"`
	TransferQueue  float64 `json:"ttft_tail_share_transfer_queue"`
	DecodeWait     float64 `json:"ttft_tail_share_decode_wait"`
	DecodeCompute  float64 `json:"ttft_tail_share_decode_compute"`
	DecodeComm     float64 `json:"ttft_tail_share_decode_comm"`
	DecodeHost     float64 `json:"ttft_tail_share_decode_host"`
}

// GPUTimePrefill is the split of the prefill pool's GPU time; it sums to 1.
type GPUTimePrefill struct {
	Compute   float64 `json:"gpu_time_prefill_compute"`
	Dispatch  float64 `json:"gpu_time_prefill_dispatch"`
	Combine   float64 `json:"gpu_time_prefill_combine"`
	AllReduce float64 `json:"gpu_time_prefill_all_reduce"`
	Barrier   float64 `json:"gpu_time_prefill_barrier"`
	WaitingKV float64 `json:"gpu_time_prefill_waiting_kv"`
	Host      float64 `json:"gpu_time_prefill_host"`
	Idle      float64 `json:"gpu_time_prefill_idle"`
}

// GPUTimeDecode is the split of the decode pool's GPU time; it sums to 1.
type GPUTimeDecode struct {
	Compute   float64 `json:"gpu_time_decode_compute"`
	Dispatch  float64 `json:"gpu_time_decode_dispatch"`
	Combine   float64 `json:"gpu_time_decode_combine"`
	AllReduce float64 `json:"gpu_time_decode_all_reduce"`
	Barrier   float64 `json:"gpu_time_decode_barrier"`
	WaitingKV float64 `json:"gpu_time_decode_waiting_kv"`
	Host      float64 `json:"gpu_time_decode_host"`
	Idle      float64 `json:"gpu_time_decode_idle"`
}

// CommSharesPrefill is what the prefill pool's dispatches and combines consist
// of, hidden behind compute or not: the parts sum to 1. Hidden is how much of
// them compute hides.
type CommSharesPrefill struct {
	Startup    float64 `json:"comm_prefill_startup"`
	Latency    float64 `json:"comm_prefill_latency"`
	Ports      float64 `json:"comm_prefill_ports"`
	Paths      float64 `json:"comm_prefill_paths"`
	Contention float64 `json:"comm_prefill_contention"`
	Hidden     float64 `json:"comm_hidden_share_prefill"`
}

// CommSharesDecode is the same of the decode pool.
type CommSharesDecode struct {
	Startup    float64 `json:"comm_decode_startup"`
	Latency    float64 `json:"comm_decode_latency"`
	Ports      float64 `json:"comm_decode_ports"`
	Paths      float64 `json:"comm_decode_paths"`
	Contention float64 `json:"comm_decode_contention"`
	Hidden     float64 `json:"comm_hidden_share_decode"`
}

func sharesJSON(s [serving.NumPieces]int) *TTFTShares {
	return &TTFTShares{
		Queue:          part(s[serving.PieceQueue]),
		PrefillCompute: part(s[serving.PiecePrefillCompute]),
		PrefillComm:    part(s[serving.PiecePrefillComm]),
		DecodeMemory:   part(s[serving.PieceDecodeMemory]),
		TransferPost:   part(s[serving.PieceTransferPost]),
		TransferWire:   part(s[serving.PieceTransferWire]),
		TransferQueue:  part(s[serving.PieceTransferQueue]),
		DecodeWait:     part(s[serving.PieceDecodeWait]),
		DecodeCompute:  part(s[serving.PieceDecodeCompute]),
		DecodeComm:     part(s[serving.PieceDecodeComm]),
		DecodeHost:     part(s[serving.PieceDecodeHost]),
	}
}

func tailSharesJSON(s [serving.NumPieces]int) *TTFTTailShares {
	return &TTFTTailShares{
		Queue:          part(s[serving.PieceQueue]),
		PrefillCompute: part(s[serving.PiecePrefillCompute]),
		PrefillComm:    part(s[serving.PiecePrefillComm]),
		DecodeMemory:   part(s[serving.PieceDecodeMemory]),
		TransferPost:   part(s[serving.PieceTransferPost]),
		TransferWire:   part(s[serving.PieceTransferWire]),
		TransferQueue:  part(s[serving.PieceTransferQueue]),
		DecodeWait:     part(s[serving.PieceDecodeWait]),
		DecodeCompute:  part(s[serving.PieceDecodeCompute]),
		DecodeComm:     part(s[serving.PieceDecodeComm]),
		DecodeHost:     part(s[serving.PieceDecodeHost]),
	}
}

func gpuTimePrefillJSON(s [NumActivities]int) *GPUTimePrefill {
	return &GPUTimePrefill{
		Compute:   part(s[ActivityCompute]),
		Dispatch:  part(s[ActivityDispatch]),
		Combine:   part(s[ActivityCombine]),
		AllReduce: part(s[ActivityAllReduce]),
		Barrier:   part(s[ActivityBarrier]),
		WaitingKV: part(s[ActivityWaitingKV]),
		Host:      part(s[ActivityHost]),
		Idle:      part(s[ActivityIdle]),
	}
}

func gpuTimeDecodeJSON(s [NumActivities]int) *GPUTimeDecode {
	return &GPUTimeDecode{
		Compute:   part(s[ActivityCompute]),
		Dispatch:  part(s[ActivityDispatch]),
		Combine:   part(s[ActivityCombine]),
		AllReduce: part(s[ActivityAllReduce]),
		Barrier:   part(s[ActivityBarrier]),
		WaitingKV: part(s[ActivityWaitingKV]),
		Host:      part(s[ActivityHost]),
		Idle:      part(s[ActivityIdle]),
	}
}

// part is millionths as a fraction, with six decimals at most.
func part(millionths int) float64 { return float64(millionths) / million }
