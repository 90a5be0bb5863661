// Answers what Crossplane makes of Compositions, so that tests can compare.
//
// Reads one Composition as JSON per line. Writes one JSON object per line: {"hash": text, "spec": the spec of its
// revision} or {"error": text}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
)

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		text, err := json.Marshal(reply(in.Bytes()))
		if err != nil {
			text, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		_, _ = out.Write(append(text, '\n'))
		_ = out.Flush()
	}
}

func reply(line []byte) (answer map[string]any) {
	defer func() {
		if problem := recover(); problem != nil {
			answer = map[string]any{"error": fmt.Sprint(problem)}
		}
	}()
	composition := &v1.Composition{}
	if err := json.Unmarshal(line, composition); err != nil {
		return map[string]any{"error": err.Error()}
	}
	converter := v1.GeneratedRevisionSpecConverter{}
	return map[string]any{"hash": composition.Hash(), "spec": converter.ToRevisionSpec(composition.Spec)}
}
