// Answers questions about patches, metadata, selectors, paths, tables and statuses as a Kubernetes API server does,
// so that tests can compare.
//
// Reads one JSON object per line, with "op" saying what is asked. Writes one JSON array per line: every answer that was
// seen in several attempts, because Go walks maps in random order. An answer is {"ok": …} or {"error": text} or
// {"panic": text}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type question = map[string]any

type answer map[string]any

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		line := append([]byte(nil), in.Bytes()...)
		seen := map[string]bool{}
		list := []json.RawMessage{}
		for range attempts(line) {
			text, err := json.Marshal(reply(line))
			if err != nil {
				text, _ = json.Marshal(answer{"error": "cannot marshal: " + err.Error()})
			}
			if !seen[string(text)] {
				seen[string(text)] = true
				list = append(list, text)
			}
		}
		text, _ := json.Marshal(list)
		_, _ = out.Write(append(text, '\n'))
		_ = out.Flush()
	}
}

func attempts(line []byte) int {
	var q struct {
		Attempts int `json:"attempts"`
	}
	_ = json.Unmarshal(line, &q)
	return max(q.Attempts, 1)
}

func reply(line []byte) (result answer) {
	defer func() {
		if p := recover(); p != nil {
			result = answer{"panic": fmt.Sprint(p)}
		}
	}()
	q := question{}
	if err := utiljson.Unmarshal(line, &q); err != nil {
		return answer{"error": "not a question: " + err.Error()}
	}
	operation, found := operations[q["op"].(string)]
	if !found {
		return answer{"error": "no such operation"}
	}
	value, err := operation(q)
	if err != nil {
		return answer{"error": err.Error()}
	}
	return answer{"ok": value}
}

var operations = map[string]func(question) (any, error){
	"json-patch":    jsonPatch,
	"merge-patch":   mergePatch,
	"strategic":     strategic,
	"facts":         facts,
	"label":         labelSelector,
	"label-object":  labelSelectorObject,
	"field":         fieldSelector,
	"quantity":      quantity,
	"quantity-pair": quantityPair,
	"meta":          metadata,
	"name":          name,
	"path":          path,
	"table":         table,
	"duration":      age,
	"status":        status,
	"list-selector": listSelector,
}

func text(q question, key string) string {
	value, _ := q[key].(string)
	return value
}

// into decodes a part of the question into a typed value.
func into(value any, target any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, target)
}
