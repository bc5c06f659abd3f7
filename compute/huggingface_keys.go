package compute

import (
	"slices"
	"strings"
)

// The keys of a config.json that mean one thing. Where a file has several of
// them, as gpt-oss has experts_per_token and num_experts_per_tok, they must
// agree.
var (
	keysLayers   = []string{"num_hidden_layers"}
	keysHidden   = []string{"hidden_size"}
	keysVocab    = []string{"vocab_size"}
	keysWidth    = []string{"intermediate_size"}
	keysHeads    = []string{"num_attention_heads"}
	keysKVHeads  = []string{"num_key_value_heads"}
	keysHeadDim  = []string{"head_dim"}
	keysExperts  = []string{"n_routed_experts", "num_experts", "num_local_experts", "num_routed_experts"}
	keysTopK     = []string{"num_experts_per_tok", "experts_per_token", "num_experts_per_token"}
	keysShared   = []string{"n_shared_experts", "num_shared_experts"}
	keysMoEWidth = []string{"moe_intermediate_size"}
	keysGroups   = []string{"n_group"}
	keysTopGroup = []string{"topk_group"}
	keysMTP      = []string{"num_nextn_predict_layers"}
	keysQKVBias  = []string{"qkv_bias"}
	keysOutBias  = []string{"o_bias", "attention_out_bias"}
)

// ignoredKeys change neither the weights nor the work per token: positions,
// numerics, training, tokens, and how a library runs the model.
var ignoredKeys = wordSet(`
	architectures model_type torch_dtype dtype quantization_config text_config
	attn_implementation experts_implementation n_ctx n_positions max_seq_len
	_name_or_path _attn_implementation _attn_implementation_internal _attn_implementation_autoset _commit_hash auto_map
	transformers_version name_or_path is_decoder is_encoder_decoder is_causal use_cache return_dict output_attentions
	output_hidden_states output_router_logits torchscript use_bfloat16 pruned_heads chunk_size_feed_forward
	max_position_embeddings original_max_position_embeddings initial_context_length max_sequence_length model_max_length
	seq_length max_length min_length
	rope_theta rope_scaling rope_parameters rope_interleave rope_interleaved rope_type rope_local_base_freq
	original_rope_theta use_mrope rms_norm_eps layer_norm_eps norm_eps initializer_range embedding_initializer_range
	attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob embd_pdrop resid_pdrop dropout
	classifier_dropout pretraining_tp ep_size aux_loss_alpha seq_aux router_aux_loss_coef router_z_loss_coef
	router_jitter_noise moe_aux_loss_coeff scoring_func topk_method norm_topk_prob routed_scaling_factor
	hidden_act hidden_activation swiglu_limit swiglu_alpha
	bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id cls_token_id mask_token_id
	forced_bos_token_id forced_eos_token_id bad_words_ids suppress_tokens begin_suppress_tokens tokenizer_class prefix
	do_sample early_stopping temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
	encoder_no_repeat_ngram_size num_beams num_beam_groups num_return_sequences diversity_penalty remove_invalid_values
	exponential_decay_length_penalty return_dict_in_generate output_scores tf_legacy_loss task_specific_params
	problem_type finetuning_task id2label label2id num_labels
	unsloth_fixed unsloth_version use_flash_attn use_flash_attention_2 use_logn_attn use_dynamic_ntk logn_list
`)

// structural are the words of keys that say how a model is built. A key with one
// of them that is not understood is refused, unless its value says nothing.
var structural = strings.Fields(`
	layer head expert hidden intermediate lora window moe kv dim rank index linear conv mamba ssm block group shared
	router mlp ffn attn attention state cross vision audio vocab embed norm bias tie sparse nextn mtp size num n
	residual pattern mixer gate tower adapter rnn recurrent recur loop latent compress quant every period freq step
	interval depth width mult ratio parallel per partial topk stride chunk hash hyper engram clip softcap scale factor
	encoder decoder draft medusa eagle prediction modality lightning delta mask nope chunked local global memory
	sliding indexer dense skip exit pool merge patch projector multi sub feature inner outer model ngram
`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// looksStructural tells whether a key has a word of structural, in the singular
// or the plural.
func looksStructural(key string) bool {
	words := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return r < 'a' || r > 'z' })
	return slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains(structural, w) || slices.Contains(structural, strings.TrimSuffix(w, "s"))
	})
}
