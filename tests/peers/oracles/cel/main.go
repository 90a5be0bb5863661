// Evaluates CEL expressions as a Kubernetes API server does, so that tests can compare.
//
// Reads one JSON object per line: {"expression": …, "variables": {name: value}, "limit": cost}.
// Writes one per line: {"compile": text} or {"error": text, "cost": n} or {"type": …, "value": …, "cost": n}.
// Variables are declared as dyn; `self` and `oldSelf` are always declared.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type question struct {
	Expression string         `json:"expression"`
	Variables  map[string]any `json:"variables"`
	Limit      uint64         `json:"limit"`
}

type answer struct {
	Compile string  `json:"compile,omitempty"`
	Error   string  `json:"error,omitempty"`
	Type    string  `json:"type,omitempty"`
	Value   any     `json:"value,omitempty"`
	Cost    *uint64 `json:"cost,omitempty"`
}

func main() {
	env := base()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		_ = encoder.Encode(reply(env, in.Bytes()))
		_ = out.Flush()
	}
}

// base is Kubernetes' environment of this release, with the three standard extensions that we add to it.
func base() *cel.Env {
	set := environment.MustBaseEnvSet(version.MajorMinor(1, 37))
	env, err := set.NewExpressionsEnv().Extend(ext.Bindings(), ext.Encoders(), ext.Math())
	if err != nil {
		panic(err)
	}
	return env
}

func reply(env *cel.Env, line []byte) (result answer) {
	defer func() {
		if p := recover(); p != nil {
			result = answer{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	var q question
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&q); err != nil {
		return answer{Compile: "not a question: " + err.Error()}
	}
	if q.Limit == 0 {
		q.Limit = celconfig.PerCallLimit
	}
	names := map[string]bool{"self": true, "oldSelf": true}
	for name := range q.Variables {
		names[name] = true
	}
	var declarations []cel.EnvOption
	for name := range names {
		declarations = append(declarations, cel.Variable(name, cel.DynType))
	}
	extended, err := env.Extend(declarations...)
	if err != nil {
		return answer{Compile: err.Error()}
	}
	ast, issues := extended.Compile(q.Expression)
	if issues.Err() != nil {
		return answer{Compile: issues.Err().Error()}
	}
	program, err := extended.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(q.Limit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return answer{Compile: "program: " + err.Error()}
	}
	variables := map[string]any{}
	for name, value := range q.Variables {
		variables[name] = native(value)
	}
	value, details, err := program.Eval(variables)
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Type = value.Type().TypeName()
	result.Value = show(value)
	return result
}

// native is what Kubernetes' decoder makes of a JSON number: an int64 where it is integral and fits, else a float64.
func native(value any) any {
	switch v := value.(type) {
	case json.Number:
		if integer, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return integer
		}
		float, _ := strconv.ParseFloat(string(v), 64)
		return float
	case []any:
		for i := range v {
			v[i] = native(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = native(v[key])
		}
	}
	return value
}

// show writes a value as {"type": value} so that no two types look alike.
func show(value ref.Val) any {
	one := func(key string, v any) any { return map[string]any{key: v} }
	switch v := value.(type) {
	case types.Null:
		return nil
	case types.Bool:
		return bool(v)
	case types.Int:
		return one("int", strconv.FormatInt(int64(v), 10))
	case types.Uint:
		return one("uint", strconv.FormatUint(uint64(v), 10))
	case types.Double:
		if math.IsNaN(float64(v)) {
			return one("double", "NaN")
		}
		return one("double", strconv.FormatUint(math.Float64bits(float64(v)), 16))
	case types.String:
		return string(v)
	case types.Bytes:
		return one("bytes", base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return one("timestamp", fmt.Sprintf("%d.%09d", v.Unix(), v.Nanosecond()))
	case types.Duration:
		return one("duration", strconv.FormatInt(v.Nanoseconds(), 10))
	case *types.Type:
		return one("type", v.TypeName())
	case *types.Optional:
		if !v.HasValue() {
			return one("optional", []any{})
		}
		return one("optional", []any{show(v.GetValue())})
	case traits.Mapper:
		pairs := [][2]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			pairs = append(pairs, [2]any{show(key), show(v.Get(key))})
		}
		sort.Slice(pairs, func(i, j int) bool { return text(pairs[i][0]) < text(pairs[j][0]) })
		return one("map", pairs)
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			list = append(list, show(it.Next()))
		}
		return list
	}
	if stringer, ok := value.Value().(fmt.Stringer); ok {
		return one(value.Type().TypeName(), stringer.String())
	}
	return one(value.Type().TypeName(), fmt.Sprint(value.Value()))
}

func text(value any) string {
	written, _ := json.Marshal(value)
	return string(written)
}
