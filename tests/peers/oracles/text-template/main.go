// Executes text templates with Go's own package, so that tests can compare.
//
// Reads one JSON object per line: {"template": …, "name": …, "data": …, "left": …, "right": …, "missingkey": …, "functions": "none" | "test" | "sprig" | "yaml"}.
// Writes one per line: {"output": base64} or {"parse": text} or {"execute": text}.
// "yaml" is what the templates of function-go-templating have: those of "sprig", and toYaml and fromYaml.
// Numbers of the data are int64 if they are written without a fraction and fit, and float64 if not, as Kubernetes' decoder has them.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"gopkg.in/yaml.v3"
)

type question struct {
	Template   string `json:"template"`
	Name       string `json:"name"`
	Data       any    `json:"data"`
	Left       string `json:"left"`
	Right      string `json:"right"`
	MissingKey string `json:"missingkey"`
	Functions  string `json:"functions"`
}

type answer struct {
	Output  *string `json:"output,omitempty"`
	Parse   string  `json:"parse,omitempty"`
	Execute string  `json:"execute,omitempty"`
}

func main() {
	// As in the container of function-go-templating, whatever the zone of this machine is.
	time.Local = time.UTC
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		_ = encoder.Encode(patient(slices.Clone(in.Bytes())))
	}
}

// patient gives up on a template that does not end.
func patient(line []byte) answer {
	result := make(chan answer, 1)
	go func() { result <- reply(line) }()
	select {
	case answer := <-result:
		return answer
	case <-time.After(10 * time.Second):
		return answer{Execute: "it does not end"}
	}
}

func reply(line []byte) (result answer) {
	defer func() {
		if p := recover(); p != nil {
			result = answer{Execute: fmt.Sprintf("panic: %v", p)}
		}
	}()
	var q question
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&q); err != nil {
		return answer{Parse: "not a question: " + err.Error()}
	}
	t := template.New(q.Name).Delims(q.Left, q.Right)
	if q.MissingKey != "" {
		t = t.Option("missingkey=" + q.MissingKey)
	}
	switch q.Functions {
	case "test":
		t = t.Funcs(functions(t))
	case "sprig":
		t = t.Funcs(sprig.TxtFuncMap()).Funcs(functions(t))
	case "yaml":
		t = t.Funcs(sprig.TxtFuncMap()).Funcs(functions(t)).Funcs(template.FuncMap{"toYaml": toYaml, "fromYaml": fromYaml})
	}
	parsed, err := t.Parse(q.Template)
	if err != nil {
		return answer{Parse: err.Error()}
	}
	var output bytes.Buffer
	if err := parsed.Execute(&output, typed(q.Data)); err != nil {
		return answer{Execute: err.Error()}
	}
	text := base64.StdEncoding.EncodeToString(output.Bytes())
	return answer{Output: &text}
}

// typed gives numbers their types, and lists no more room than they need: what is behind their ends is no part of the comparison.
func typed(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, _ := value.Float64()
		return float
	case []any:
		for i := range value {
			value[i] = typed(value[i])
		}
		return slices.Clip(value)
	case map[string]any:
		for key := range value {
			value[key] = typed(value[key])
		}
	}
	return value
}

// As in function_maps.go of function-go-templating v0.12.2, which all releases have alike.
func toYaml(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return string(text), err
}

func fromYaml(text string) (any, error) {
	var value any
	err := yaml.Unmarshal([]byte(text), &value)
	return value, err
}

type point struct {
	X    int
	Name string
}

// Functions with parameters and results of all the types that the functions of templates have. The test has the same.
func functions(t *template.Template) template.FuncMap {
	return template.FuncMap{
		"wantBool":    func(v bool) string { return fmt.Sprint("bool ", v) },
		"wantInt":     func(v int) string { return fmt.Sprint("int ", v) },
		"wantInt64":   func(v int64) string { return fmt.Sprint("int64 ", v) },
		"wantFloat":   func(v float64) string { return fmt.Sprint("float64 ", v) },
		"wantString":  func(v string) string { return "string " + v },
		"wantAny":     func(v any) string { return fmt.Sprintf("%T %v", v, v) },
		"wantList":    func(v []any) string { return fmt.Sprintf("list %v %v", v == nil, v) },
		"wantStrings": func(v []string) string { return fmt.Sprintf("strings %v %v", v == nil, v) },
		"wantMap":     func(v map[string]any) string { return fmt.Sprintf("map %v %v", v == nil, v) },
		"wantRest":    func(s string, v ...int) string { return fmt.Sprintf("rest %s %v", s, v) },
		"wantAnys":    func(v ...any) string { return fmt.Sprintf("anys %d %v", len(v), v) },
		"same":        func(v any) any { return v },
		"fails":       func(v any) (any, error) { return nil, errors.New("it fails") },
		"strings":     func(v string) []string { return strings.Split(v, ",") },
		"ints":        func() []int { return []int{1, 2, 3} },
		"bytes":       func(v string) []byte { return []byte(v) },
		"texts":       func() map[string]string { return map[string]string{"a": "b", "c": ""} },
		"lists":       func(v ...any) []any { return v },
		"nested":      func() [][]any { return [][]any{{1, "a"}, nil} },
		"nilList":     func() []any { return nil },
		"nilMap":      func() map[string]any { return nil },
		"dictOf":      func(k string, v any) map[string]any { return map[string]any{k: v} },
		"put":         func(m map[string]any, k string, v any) map[string]any { m[k] = v; return m },
		"include": func(name string, data any) (string, error) {
			var output strings.Builder
			err := t.ExecuteTemplate(&output, name, data)
			return output.String(), err
		},
		"point": func() point { return point{X: 1, Name: "p"} },
	}
}
