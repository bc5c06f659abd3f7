package workload

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tgssim/tgssim/internal/config"
)

// The formats of recorded traces.
const (
	// FormatAuto looks at the first line.
	FormatAuto = "auto"
	// FormatAzure is the Azure LLM inference traces of 2023 and 2024 (Patel et
	// al., Splitwise, ISCA 2024; Stojkovic et al., DynamoLLM, HPCA 2025;
	// github.com/Azure/AzurePublicDataset): CSV, TIMESTAMP in UTC with up to
	// seven fractional digits, ContextTokens, GeneratedTokens.
	FormatAzure = "azure"
	// FormatBurstGPT is the traces of Wang et al., BurstGPT, KDD 2025
	// (github.com/HPMLL/BurstGPT): CSV, Timestamp in seconds, Request tokens,
	// Response tokens, and other columns, which differ between its files and are
	// ignored. Failed calls have zero response tokens.
	FormatBurstGPT = "burstgpt"
	// FormatMooncake is the traces of Qin et al., Mooncake, FAST 2025
	// (github.com/kvcache-ai/Mooncake): JSON lines with timestamp in
	// milliseconds, input_length, output_length and hash_ids, one for each block
	// of 512 tokens; equal IDs are equal prefixes up to and including the block.
	// Other fields are ignored. hash_ids may be absent.
	FormatMooncake = "mooncake"
	// FormatBailian is the traces of Wang et al., KVCache Cache in the Wild,
	// USENIX ATC 2025 (github.com/alibaba-edu/qwen-bailian-usagetraces-anon):
	// JSON lines as Mooncake's, but with timestamp in seconds, blocks of 16
	// tokens, and a chat_id, by which the two are told apart. Every row is a
	// request of its own, turns of one chat included.
	FormatBailian = "bailian"
)

// A format is what sets one trace format apart.
type format struct {
	name string
	// columns are the CSV columns of time, prompt and output; nil for JSON lines.
	columns []string
	// time reads a timestamp, in ns.
	time func(text []byte) (int64, string)
	// blockTokens is the number of tokens of a hash ID's block; 0 without any.
	blockTokens int
}

// formats is the table of the known formats, by name.
var formats = []format{
	{name: FormatAzure, columns: []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, time: parseClock},
	{name: FormatBurstGPT, columns: []string{"Timestamp", "Request tokens", "Response tokens"}, time: parseSeconds},
	{name: FormatMooncake, time: parseMilliseconds, blockTokens: mooncakeBlock},
	{name: FormatBailian, time: parseSeconds, blockTokens: 16},
}

// Formats lists the valid values of TraceConfig.Format.
var Formats = []string{FormatAuto, FormatAzure, FormatBurstGPT, FormatMooncake, FormatBailian}

func formatNamed(name string) *format {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	return &formats[i]
}

// recognise finds the format of a file from its first line, unless cfg names it,
// and returns the decoder of its rows.
func recognise(head []byte, cfg TraceConfig) (*format, decoder, *fault) {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return nil, nil, faultf("", "the file is compressed; unpack it with gunzip first")
	case cfg.Format != FormatAuto:
		form := formatNamed(cfg.Format)
		if form.columns == nil {
			return form, &jsonRows{format: form}, nil
		}
		d, f := newCSVRows(form, head)
		return form, d, f
	case bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")):
		form := formatNamed(FormatMooncake)
		if bytes.Contains(head, []byte(`"chat_id"`)) {
			form = formatNamed(FormatBailian)
		}
		return form, &jsonRows{format: form}, nil
	}
	form, f := closest(head)
	if f != nil {
		return nil, nil, f
	}
	d, f := newCSVRows(form, head)
	return form, d, f
}

// closest returns the CSV format that shares the most columns with a header, the
// near misses included, so that a misspelt column is named as such.
func closest(head []byte) (*format, *fault) {
	header, f := splitHeader(head)
	if f != nil {
		return nil, f
	}
	var best *format
	most := 0
	for i := range formats {
		score := 0
		for _, c := range formats[i].columns {
			switch {
			case slices.Contains(header, c):
				score += 3
			case config.Nearest(c, header) != "":
				score++
			}
		}
		if score > most {
			best, most = &formats[i], score
		}
	}
	if most >= 3 {
		return best, nil
	}
	var known []string
	for _, form := range formats {
		if form.columns != nil {
			known = append(known, fmt.Sprintf("%s has the columns %s", form.name, strings.Join(form.columns, ", ")))
		}
	}
	return nil, faultf("", "%s is not the first line of a known format: %s; mooncake and bailian are JSON lines",
		quote(head), strings.Join(known, ", "))
}

// quote prints a piece of a file, cut short and with odd characters escaped.
func quote(text []byte) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
