package workload

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// The parsers below return a value, or else what is wrong with the text and what
// would be right, to follow a quotation of the text.

const wantTokens = "0 to 10000000 is valid"

// parseTokens reads a number of tokens.
func parseTokens(text []byte) (int32, string) {
	switch {
	case len(text) == 0:
		return 0, "is empty; " + wantTokens
	case text[0] == '-' && isDigits(text[1:]):
		return 0, "is negative; " + wantTokens
	case !isDigits(text):
		return 0, "is not a whole number; " + wantTokens
	}
	n := int32(0)
	for _, c := range text {
		n = n*10 + int32(c-'0')
		if n > MaxTokens {
			return 0, "is too large; " + wantTokens
		}
	}
	return n, ""
}

func isDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

// parseSeconds reads a number of seconds, in ns.
func parseSeconds(text []byte) (int64, string) {
	return parseDecimal(text, 9, "a number of seconds from 0 to 9200000000 is valid")
}

// parseMilliseconds reads a number of milliseconds, in ns.
func parseMilliseconds(text []byte) (int64, string) {
	return parseDecimal(text, 6, "a number of milliseconds from 0 to 9200000000000 is valid")
}

// maxInstant is the latest instant of a trace, in ns: 291 years.
const maxInstant = 9_200_000_000_000_000_000

// parseDecimal reads a number that is not negative, times 10**scale, exactly up
// to scale fractional digits; further digits round half up. Numbers with an
// exponent are read through float64.
func parseDecimal(text []byte, scale int, want string) (int64, string) {
	whole, fraction, point := bytes.Cut(text, []byte("."))
	switch {
	case len(text) == 0:
		return 0, "is empty; " + want
	case text[0] == '-':
		return 0, "is negative or not a number; " + want
	case !isDigits(whole) || point && len(fraction) > 0 && !isDigits(fraction):
		return parseExponent(text, scale, want)
	}
	n := int64(0)
	push := func(digit byte) bool {
		n = n*10 + int64(digit-'0')
		return n <= maxInstant/10
	}
	small := true
	for _, c := range whole {
		small = small && push(c)
	}
	for i := range scale {
		digit := byte('0')
		if i < len(fraction) {
			digit = fraction[i]
		}
		// The last digit may bring n up to maxInstant.
		last := i == scale-1
		small = small && (push(digit) || last && n <= maxInstant)
	}
	if !small {
		return 0, "is too large; " + want
	}
	if len(fraction) > scale && fraction[scale] >= '5' {
		n++
	}
	return n, ""
}

func parseExponent(text []byte, scale int, want string) (int64, string) {
	// ParseFloat also knows hexadecimal, infinities and NaN.
	if text[0] == '+' || len(bytes.Trim(text, "0123456789.eE+-")) > 0 || !bytes.ContainsAny(text, "eE") {
		return 0, "is not a number; " + want
	}
	v, err := strconv.ParseFloat(string(text), 64)
	v *= math.Pow10(scale)
	switch {
	case v > maxInstant: // infinite when ParseFloat says that it is out of range
		return 0, "is too large; " + want
	case err != nil:
		return 0, "is not a number; " + want
	}
	return int64(math.RoundToEven(v)), ""
}

const wantClock = "a time such as 2023-11-16 18:17:03.9799600 is valid"

// parseClock reads a date and time of day, in ns since 1970 UTC: up to nine
// fractional digits or none, and an offset, Z or none, which is UTC.
func parseClock(text []byte) (int64, string) {
	const plain = "2006-01-02 15:04:05"
	if len(text) < len(plain) || text[10] != ' ' && text[10] != 'T' {
		return 0, "is not a time; " + wantClock
	}
	var part [6]int // year, month, day, hour, minute, second
	at := 0
	for i := range part {
		width := 2
		if i == 0 {
			width = 4
		}
		if !isDigits(text[at : at+width]) {
			return 0, "is not a time; " + wantClock
		}
		for _, c := range text[at : at+width] {
			part[i] = part[i]*10 + int(c-'0')
		}
		at += width
		if i < 5 && i != 2 && text[at] != plain[at] {
			return 0, "is not a time; " + wantClock
		}
		at++
	}
	nanos, rest, ok := parseFraction(text[len(plain):])
	offset, known := parseOffset(rest)
	if !ok || !known {
		return 0, "is not a time; " + wantClock
	}
	t := time.Date(part[0], time.Month(part[1]), part[2], part[3], part[4], part[5], nanos, time.UTC)
	if t.Month() != time.Month(part[1]) || t.Day() != part[2] || t.Hour() != part[3] ||
		t.Minute() != part[4] || t.Second() != part[5] {
		return 0, "is not on the calendar; " + wantClock
	}
	if part[0] < 1971 || part[0] > 2260 {
		return 0, "is not in the years 1971 to 2260"
	}
	return t.UnixNano() - offset*int64(time.Second), ""
}

// parseFraction reads ".9799600" as ns, and returns what follows it.
func parseFraction(text []byte) (nanos int, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	n := 1
	for unit := 100_000_000; n < len(text) && '0' <= text[n] && text[n] <= '9'; n++ {
		nanos += unit * int(text[n]-'0')
		unit /= 10
	}
	return nanos, text[n:], 2 <= n && n <= 10
}

// parseOffset reads "", "Z", "+00:00", "+0000" or "+00" as seconds.
func parseOffset(text []byte) (seconds int64, ok bool) {
	if len(text) == 0 || string(text) == "Z" {
		return 0, true
	}
	sign, hours, minutes := text[0], text[1:], []byte("00")
	switch len(hours) {
	case 5: // 00:00
		if hours[2] != ':' {
			return 0, false
		}
		hours, minutes = hours[:2], hours[3:]
	case 4:
		hours, minutes = hours[:2], hours[2:]
	case 2:
	default:
		return 0, false
	}
	if sign != '+' && sign != '-' || !isDigits(hours) || !isDigits(minutes) {
		return 0, false
	}
	h, m := int64(hours[0]-'0')*10+int64(hours[1]-'0'), int64(minutes[0]-'0')*10+int64(minutes[1]-'0')
	if h > 14 || m > 59 {
		return 0, false
	}
	seconds = h*3600 + m*60
	if sign == '-' {
		seconds = -seconds
	}
	return seconds, true
}
