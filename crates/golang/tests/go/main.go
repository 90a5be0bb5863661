// Asks Go's standard library what the crate beside has to reproduce.
//
//	go run . ranges > ../../src/strconv/print_ranges.rs
//	go run . categories > ../../src/unicode/category_ranges.rs
//	go run . cases > ../../src/unicode/case_ranges.rs
//	go run . answers > ../it/answers.jsonl
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

func main() {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "ranges":
			ranges()
			return
		case "categories":
			categories()
			return
		case "cases":
			cases()
			return
		case "answers":
			answers()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: go run . ranges|categories|cases|answers")
	os.Exit(2)
}

// ranges writes the characters beyond ASCII that strconv.IsPrint lets pass.
func ranges() {
	fmt.Printf("//! Which characters beyond ASCII can be printed, according to Go. Written by `tests/go/main.go`.\n\n")
	fmt.Printf("/// First and last character of each range, in order: Unicode %s, which Go 1.26 has.\n", unicode.Version)
	table("RANGES", strconv.IsPrint)
}

// categories writes the letters and digits beyond ASCII.
func categories() {
	fmt.Printf("//! Which characters beyond ASCII are letters or digits, according to Go. Written by `tests/go/main.go`.\n\n")
	fmt.Printf("/// First and last letter of each range, in order: Unicode %s, which Go 1.26 has.\n", unicode.Version)
	table("LETTERS", unicode.IsLetter)
	fmt.Printf("\n/// The same of decimal digits.\n")
	table("DIGITS", unicode.IsDigit)
}

// cases writes the classes beyond ASCII that have to do with words, and how letters change between upper, lower and title case.
func cases() {
	fmt.Printf("//! Upper, lower and title case, punctuation and numbers, according to Go. Written by `tests/go/main.go`.\n\n")
	fmt.Printf("/// First and last letter in upper case of each range, in order: Unicode %s, which Go 1.26 has.\n", unicode.Version)
	table("UPPER", unicode.IsUpper)
	fmt.Printf("\n/// The same of lower case.\n")
	table("LOWER", unicode.IsLower)
	fmt.Printf("\n/// The same of title case.\n")
	table("TITLE", unicode.IsTitle)
	fmt.Printf("\n/// The same of punctuation.\n")
	table("PUNCTUATION", unicode.IsPunct)
	fmt.Printf("\n/// The same of numbers, digits or not.\n")
	table("NUMBERS", unicode.IsNumber)
	fmt.Printf("\n/// First and last letter of each range, and what is added to make it upper, lower and title case. `ALTERNATING` stands\n")
	fmt.Printf("/// for ranges in which letters in upper and lower case take turns.\n#[rustfmt::skip]\n")
	fmt.Printf("pub(super) const CASES: &[(u32, u32, [i32; 3])] = &[\n")
	for _, cases := range unicode.CaseRanges {
		fmt.Printf("    (%#x, %#x, [", cases.Lo, cases.Hi)
		for at, delta := range cases.Delta {
			if at > 0 {
				fmt.Printf(", ")
			}
			if delta == unicode.UpperLower {
				fmt.Printf("ALTERNATING")
			} else {
				fmt.Printf("%d", delta)
			}
		}
		fmt.Printf("]),\n")
	}
	fmt.Printf("];\n\n/// Larger than any difference between two characters.\n")
	fmt.Printf("pub(super) const ALTERNATING: i32 = i32::MAX;\n")
}

// table writes the ranges of the characters beyond ASCII that are in a class.
func table(name string, isInClass func(rune) bool) {
	fmt.Printf("#[rustfmt::skip]\npub(super) const %s: &[(char, char)] = &[\n", name)
	for first := rune(0x80); first <= utf8.MaxRune; first++ {
		if !isInClass(first) {
			continue
		}
		last := first
		for last < utf8.MaxRune && isInClass(last+1) {
			last++
		}
		fmt.Printf("    ('\\u{%x}', '\\u{%x}'),\n", first, last)
		first = last
	}
	fmt.Printf("];\n")
}

// answer is a question, and what Go says: one of text, number and error.
type answer struct {
	Ask    string `json:"ask"`
	Input  string `json:"input"`
	Text   string `json:"text,omitempty"`
	Number *int64 `json:"number,omitempty"`
	Error  string `json:"error,omitempty"`
}

func answers() {
	dice := rand.New(rand.NewSource(1))
	out := json.NewEncoder(os.Stdout)
	say := func(a answer) {
		if err := out.Encode(a); err != nil {
			panic(err)
		}
	}
	for range 200 {
		text := pick(dice, []string{"a", "\"", "'", "\\", "\n", "\x00", "\x7f", "é", "\u00a0", "\u00ad", "\u200b", "\u2028", "\u0301", "\ufeff", "\ufffd", "🚀", "\U000e0001", "\U0010ffff", string(rune(dice.Intn(0xd800))), string(rune(0x10000 + dice.Intn(0x20000)))}, 6)
		say(answer{Ask: "quote", Input: text, Text: strconv.Quote(text)})
		encoded, _ := json.Marshal(text)
		say(answer{Ask: "json", Input: text, Text: string(encoded)})
	}
	for range 300 {
		text := `"` + pick(dice, []string{"a", "é", "\\", `\\`, `\n`, `\x41`, `\x4`, `\xc3\xa9`, `\101`, `\400`, `\u00e9`, `\ud800`, `\U0001f680`, `\U00110000`, `\'`, `\"`, `"`, `\q`}, 4) + `"`
		unquoted, err := strconv.Unquote(text)
		if err == nil && !utf8.ValidString(unquoted) {
			continue
		}
		a := answer{Ask: "unquote", Input: text, Text: unquoted}
		if err != nil {
			a.Error = err.Error()
		}
		say(a)
	}
	for range 400 {
		text := pick(dice, []string{"-", "+", "", "", ""}, 1)
		for range dice.Intn(4) {
			numbers := []string{"0", "1", "12", "7", "350", ".5", "1.5", "0.100000000000000000000", "9223372036854775807", "9223372036854775808", "", "."}
			units := []string{"ns", "us", "µs", "μs", "ms", "s", "s", "m", "m", "h", "h", "d", " ", "é", "\"", ""}
			text += numbers[dice.Intn(len(numbers))] + units[dice.Intn(len(units))]
		}
		length, err := time.ParseDuration(text)
		say(result("duration", text, int64(length), err))
	}
	for range 300 {
		text := moment(dice)
		at, err := time.Parse(time.RFC3339, text)
		say(result("time", text, at.Unix(), err))
		at, err = time.Parse("2006-01-02T15:04:05.000000Z07:00", text)
		say(result("micro", text, at.Unix(), err))
	}
	for range 300 {
		float := math.Float64frombits(dice.Uint64())
		if dice.Intn(2) == 0 {
			float = math.Round(dice.NormFloat64()*1e4) * math.Pow10(dice.Intn(60)-30)
		}
		if math.IsNaN(float) || math.IsInf(float, 0) {
			continue
		}
		input := strconv.FormatFloat(float, 'e', -1, 64)
		say(answer{Ask: "float", Input: input, Text: fmt.Sprint(float)})
		encoded, _ := json.Marshal(float)
		say(answer{Ask: "json float", Input: input, Text: string(encoded)})
	}
}

func result(ask, input string, number int64, err error) answer {
	if err != nil {
		return answer{Ask: ask, Input: input, Error: err.Error()}
	}
	return answer{Ask: ask, Input: input, Number: &number}
}

func pick(dice *rand.Rand, parts []string, most int) string {
	var text strings.Builder
	for range dice.Intn(most + 1) {
		text.WriteString(parts[dice.Intn(len(parts))])
	}
	return text.String()
}

// moment is a time of RFC 3339, or nearly one.
func moment(dice *rand.Rand) string {
	one := func(choices ...string) string { return choices[dice.Intn(len(choices))] }
	usually := func(text string, others ...string) string {
		if dice.Intn(30) > 0 {
			return text
		}
		return one(others...)
	}
	return one("2024", "2023", "0000", "0001", "9999", "1970") + usually("-", "", "/") +
		usually("02", "13", "00", "1", "12") + usually("-", " ") + usually("28", "29", "30", "31", "00", "1") +
		usually("T", "t", " ", "") + usually("12", "1", "24", "x") + usually(":", "") +
		usually("30", "60", "5") + usually(":", "") + usually("45", "60", "7") +
		one("", "", ".5", ",25", ".123456", ".1234567891", ".", ".12345x") +
		one("Z", "Z", "Z", "+01:30", "-23:59", "+24:60", "+25:00", "+01:61", "+1:00", "z", "", "Zx", "é")
}
