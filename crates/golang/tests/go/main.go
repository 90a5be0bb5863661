// Asks Go's standard library what the crate beside has to reproduce.
//
//	go run . ranges > ../../src/strconv/print_ranges.rs
//	go run . answers > ../it/answers.jsonl
package main

import (
	"fmt"
	"os"
	"strconv"
	"unicode"
	"unicode/utf8"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "ranges" {
		ranges()
		return
	}
	fmt.Fprintln(os.Stderr, "usage: go run . ranges|answers")
	os.Exit(2)
}

// ranges writes the characters beyond ASCII that strconv.IsPrint lets pass.
func ranges() {
	fmt.Printf("//! Which characters beyond ASCII can be printed, according to Go. Written by `tests/go/main.go`.\n\n")
	fmt.Printf("/// First and last character of each range, in order: Unicode %s, which Go 1.26 has.\n", unicode.Version)
	fmt.Printf("#[rustfmt::skip]\npub(super) const RANGES: &[(char, char)] = &[\n")
	for first := rune(0x80); first <= utf8.MaxRune; first++ {
		if !strconv.IsPrint(first) {
			continue
		}
		last := first
		for last < utf8.MaxRune && strconv.IsPrint(last+1) {
			last++
		}
		fmt.Printf("    ('\\u{%x}', '\\u{%x}'),\n", first, last)
		first = last
	}
	fmt.Printf("];\n")
}
