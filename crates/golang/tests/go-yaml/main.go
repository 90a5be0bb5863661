// Records what the YAML libraries of Go say, so that tests can compare: `go run . > ../it/yaml.jsonl`.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	yaml3 "gopkg.in/yaml.v3"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Texts that some reader or writer treats in a way of its own.
var scalars = []string{
	"", " ", "a", "a b", " a", "a ", "a: b", "a:b", "a #b", "a#b", "#a", "- a", "-a", "-", "?", "? a", ":", ": a", "key", "true", "True",
	"false", "yes", "no", "on", "off", "y", "n", "Y", "N", "null", "Null", "~", "1", "-1", "+1", "0", "00", "007", "0o17", "0O17", "0x1F", "0b101", "0b-1",
	"-0b1", "1_000", "_1", "1.5", "1.", ".5", "-.5", "1e3", "1e400", "+1e3", ".inf", "-.inf", ".nan", "1:30", "1:30:00", "190:20:30.15", "2001-12-14",
	"2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10", "2001-13-40", "9223372036854775807", "9223372036854775808", "18446744073709551616",
	"a\nb", "a\nb\n", "a\n\nb", "\na", "\n", "a\n\n", " a\nb", "a\n b", "a \nb", "a\tb", "\ta", "a\t\nb", "tab\tin\nlines\n", "'", "\"", "a'b", "a\"b", "\\", "a\\nb",
	"{", "}", "[", "]", "{a}", "[a]", ",", "a,b", "&a", "*a", "!a", "!!str a", "|", ">", "%a", "@a", "`a", "---", "--- a", "...", "<<", "=", "é", "日本", "\u0085", "a\u2028b", "\u00a0",
	"\U0001F600", "\u0007", "\x00", "\ufeff", "a\rb", "a\r\nb", "http://example.org/a?b=c#d", "{{ .a }}", "very long text that goes on and on so that a writer that folds lines would have to fold it somewhere near here and again",
	"0.1", "1.0", "100000000000000000000", "1e-7", "a: 'b'", "x: {y: [z]}", "*", "&", "a:", "-\tx", "null\n", "true\n", "12e03", "0.", "-", "--", "1__2", "1_", "+", "+.inf", "0x", "0b", "0o",
}

type answer struct {
	Ask   string `json:"ask"`
	Input any    `json:"input"`
	Text  string `json:"text,omitempty"`
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	random := rand.New(rand.NewSource(7))
	for _, value := range values(random) {
		text, err := yaml3.Marshal(value)
		if err != nil {
			panic(err)
		}
		_ = out.Encode(answer{Ask: "write", Input: value, Text: string(text)})
	}
	for _, text := range texts(random) {
		var value any
		a := answer{Ask: "read", Input: text}
		if err := yaml3.Unmarshal([]byte(text), &value); err != nil {
			a.Error = err.Error()
		} else {
			a.Value = typed(value)
		}
		_ = out.Encode(a)
		_ = out.Encode(documents(text))
	}
	for _, text := range streams {
		_ = out.Encode(documents(text))
	}
}

func values(random *rand.Rand) []any {
	var values []any
	for _, text := range scalars {
		values = append(values, text, map[string]any{text: text}, []any{text}, map[string]any{"a": []any{text, []any{text}}, "b": map[string]any{"c": text}},
			[]any{map[string]any{"a": text, "b": []any{text}}})
	}
	for range 300 {
		values = append(values, value(random, 4))
	}
	return values
}

func value(random *rand.Rand, depth int) any {
	switch kind := random.Intn(10); {
	case kind < 3 && depth > 0:
		m := map[string]any{}
		for range random.Intn(4) {
			m[scalars[random.Intn(len(scalars))]] = value(random, depth-1)
		}
		return m
	case kind < 5 && depth > 0:
		l := []any{}
		for range random.Intn(4) {
			l = append(l, value(random, depth-1))
		}
		return l
	case kind == 5:
		return random.Intn(2) == 0
	case kind == 6:
		return nil
	case kind == 7:
		return random.Int63() - random.Int63()
	default:
		return scalars[random.Intn(len(scalars))]
	}
}

func texts(random *rand.Rand) []string {
	var texts []string
	for _, text := range scalars {
		texts = append(texts, text, "a: "+text, "- "+text, "'"+strings.ReplaceAll(text, "'", "''")+"'", text+": a", "{a: "+text+"}", "a: |\n  "+strings.ReplaceAll(text, "\n", "\n  "), "!!str "+text, "!!int "+text, "!!float "+text)
	}
	for range 300 {
		text, _ := yaml3.Marshal(value(random, 4))
		texts = append(texts, string(text))
	}
	return append(texts, documentsOfAllKinds...)
}

var documentsOfAllKinds = []string{
	"a: &x {b: 1}\nc: *x\n", "a: &x {b: 1, d: 2}\nc:\n  <<: *x\n  b: 3\n", "c:\n  b: 3\n  <<: {b: 1, e: 2}\n", "<<: [{a: 1}, {a: 2, b: 3}]\n", "<<: 1\n", "a: &x [*x]\n", "a: *nope\n",
	"a: 1\na: 2\n", "a: 1\nb: 2\na: 3\na: 4\n", "x:\n  a: 1\n  a: 2\ny:\n  b: 1\n  b: 2\n", "a: 1\n\"a\": 2\n", "1: a\n1.5: b\ntrue: c\nnull: d\n", "? [a]\n: b\n", "? {a: b}\n: c\n",
	"a:\n- b\n- c:\n    d\n", "a: >\n  folded\n  text\n\n  more\n", "a: >-\n  x\nb: |+\n  y\n\nc: |2\n    z\n", "a: 'it''s'\nb: \"\\u00e9\\n\"\n", "a: b: c\n", "a: [b\n", "a: {b: c\n", "\ta: b\n", "a:\n\t- b\n", "- a\nb: c\n",
	"a: b\n c: d\n", "a: \"b\n", "a: 'b\n", "%YAML 1.1\n---\na: b\n", "%TAG ! tag:x,2000:\n---\n!a b\n", "--- a\n...\n--- b\n", "# only\n", "", "\n\n", "a: # comment\n  b\n", "a: b # comment\n", "a: !!binary aGVsbG8=\n", "a: !!binary ???\n",
	"a: !foo bar\n", "a: !!set {x, y}\n", "[a, b]: c\n", "{a, b: c}\n", "[a: b, c]\n", "a: |\n x\n  y\n z\n", "a: |\n\n  x\n", "a: |\n  x\n y\n", "- - - a\n- [[b]]\n", "a: ~\nb:\nc: ''\n", "a: 2001-12-14\n", "2001-12-14: a\n", "a: 0777\nb: 08\n",
	"a: yes\nyes: b\n", "a:   spaced   out  \n", "a: plain\n  continued\n  here\n", "\"a\": 1\n'b': 2\n", "a: @b\n", "a: `b\n", "a: %b\n", "a: &x\nb: *x\n", "a: !!null x\n", "a: !!bool yes\n", "a: !!bool true\n", "a: !!timestamp 2001-12-14\n", "a: !!timestamp x\n",
}

var streams = []string{
	"a: 1\n---\nb: 2\n", "---\na: 1\n---\n---\nb: 2\n", "a: 1\n--- # c\nb: 2\n", "a: 1\n--- b\n", "---", "---\n---\n", "a: 1\n---", "# a\n---\n# b\n", "{}{}", "{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}\n---\n{\"b\":2}\n---\nc: 3\n", "{a: 1}\n---\nb: 2\n",
	" {\"a\": 18446744073709551615, \"b\": 1.0, \"c\": 1e3}", "a: 18446744073709551615\nb: 1.0\nc: 1e3\nd: 9223372036854775807\n", "{\"a\":1}{\"b\":2}x", "a: |\n  ---\n  x\n", "a: 1\n...\nb: 2\n", "a: .nan\n", "a: 1\r\n---\r\nb: 2\r\n", "----\n", "a\n---b\n",
}

// documents reads a stream as Kubernetes' clients do.
func documents(text string) answer {
	a := answer{Ask: "documents", Input: text}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 1024)
	read := []any{}
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err == io.EOF {
			break
		}
		if err != nil {
			a.Error = err.Error()
			break
		}
		read = append(read, string(raw))
	}
	a.Value = read
	return a
}

// typed says what a value is, and what it is worth.
func typed(value any) any {
	switch value := value.(type) {
	case nil:
		return []any{"null"}
	case bool:
		return []any{"bool", value}
	case int:
		return []any{"int", strconv.Itoa(value)}
	case int64:
		return []any{"int", strconv.FormatInt(value, 10)}
	case uint64:
		return []any{"uint", strconv.FormatUint(value, 10)}
	case float64:
		return []any{"float", strconv.FormatFloat(value, 'g', -1, 64)}
	case string:
		return []any{"string", value}
	case time.Time:
		return []any{"time"}
	case []any:
		items := []any{"list"}
		for _, item := range value {
			items = append(items, typed(item))
		}
		return items
	case map[string]any:
		general := map[any]any{}
		for key, item := range value {
			general[key] = item
		}
		return typed(general)
	case map[any]any:
		var entries []any
		for key, item := range value {
			entries = append(entries, []any{typed(key), typed(item)})
		}
		text := func(i int) string { t, _ := json.Marshal(entries[i]); return string(t) }
		sort.Slice(entries, func(i, j int) bool { return text(i) < text(j) })
		return append([]any{"map"}, entries...)
	}
	panic(fmt.Sprintf("%T", value))
}
