package metrics_test

// pinnedKeys are the keys of summary.json, in order. Adding one is fine;
// removing or renaming one breaks whoever reads them.
const pinnedKeys = "duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput " +
	"output_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests " +
	"mean_ttft_ms median_ttft_ms std_ttft_ms p90_ttft_ms p95_ttft_ms p99_ttft_ms max_ttft_ms " +
	"mean_ttft_prefill_only_ms median_ttft_prefill_only_ms std_ttft_prefill_only_ms " +
	"p90_ttft_prefill_only_ms p95_ttft_prefill_only_ms p99_ttft_prefill_only_ms max_ttft_prefill_only_ms " +
	"mean_tpot_ms median_tpot_ms std_tpot_ms p90_tpot_ms p95_tpot_ms p99_tpot_ms max_tpot_ms mean_itl_ms " +
	"median_itl_ms std_itl_ms p90_itl_ms p95_itl_ms p99_itl_ms max_itl_ms mean_e2el_ms median_e2el_ms " +
	"std_e2el_ms p90_e2el_ms p95_e2el_ms p99_e2el_ms max_e2el_ms mean_kv_transfer_ms " +
	"median_kv_transfer_ms std_kv_transfer_ms p90_kv_transfer_ms p95_kv_transfer_ms p99_kv_transfer_ms " +
	"max_kv_transfer_ms requests_arrived requests_rejected requests_unfinished peak_requests_in_system " +
	"measured_requests itl_samples first_arrival_s last_arrival_s end_s steady_start_s steady_end_s " +
	"offered_rate_req_per_s served_rate_req_per_s offered_prompt_tokens_per_s offered_output_tokens_per_s " +
	"prefilled_tokens emitted_output_tokens gpus prefill_gpus decode_gpus tgs tgs_steady tgs_prefill " +
	"tgs_prefill_steady tgs_decode tgs_decode_steady tgs_offered tgs_without_waiting batch_per_decode_gpu " +
	"batch_over_tpot seconds_per_token slo_attainment slo_met ttft_share_queue ttft_share_prefill_compute " +
	"ttft_share_prefill_comm ttft_share_decode_memory ttft_share_transfer_post ttft_share_transfer_wire " +
	"ttft_share_transfer_queue ttft_share_decode_wait ttft_share_decode_compute ttft_share_decode_comm " +
	"ttft_share_decode_host ttft_tail_share_queue ttft_tail_share_prefill_compute " +
	"ttft_tail_share_prefill_comm ttft_tail_share_decode_memory ttft_tail_share_transfer_post " +
	"ttft_tail_share_transfer_wire ttft_tail_share_transfer_queue ttft_tail_share_decode_wait " +
	"ttft_tail_share_decode_compute ttft_tail_share_decode_comm ttft_tail_share_decode_host " +
	"kv_transfer_share_ttft kv_transfer_tail_share_ttft gpu_time_prefill_compute " +
	"gpu_time_prefill_dispatch gpu_time_prefill_combine gpu_time_prefill_all_reduce " +
	"gpu_time_prefill_barrier gpu_time_prefill_waiting_kv gpu_time_prefill_host gpu_time_prefill_idle " +
	"gpu_time_decode_compute gpu_time_decode_dispatch gpu_time_decode_combine gpu_time_decode_all_reduce " +
	"gpu_time_decode_barrier gpu_time_decode_waiting_kv gpu_time_decode_host gpu_time_decode_idle " +
	"exposed_comm_share_prefill exposed_comm_share_decode prefill_busy peak_kv_share_prefill " +
	"peak_kv_share_decode kv_transfers kv_bytes mean_util_nvlink max_util_nvlink mean_util_nic_up " +
	"max_util_nic_up mean_util_nic_down max_util_nic_down mean_util_leaf_up max_util_leaf_up " +
	"mean_util_leaf_down max_util_leaf_down jfi_uplinks mmr_uplinks jfi_decode_tokens jfi_decode_kv_bytes " +
	"served_over_offered saturation saturation_evidence network_verdict network_answer"
