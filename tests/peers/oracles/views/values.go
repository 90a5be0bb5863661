package main

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"
)

func show(q resource.Quantity) any {
	integer, isInteger := q.AsInt64()
	result := map[string]any{
		"text":  q.String(),
		"sign":  q.Sign(),
		"float": strconv.FormatFloat(q.AsApproximateFloat64(), 'e', -1, 64),
	}
	// What was written may be kept as it is; this is what is made anew.
	q.Neg()
	q.Neg()
	result["canonical"] = q.String()
	if isInteger {
		result["integer"] = integer
	}
	return result
}

func quantity(q question) (any, error) {
	parsed, err := resource.ParseQuantity(text(q, "text"))
	if err != nil {
		return nil, err
	}
	return show(parsed), nil
}

func quantityPair(q question) (any, error) {
	one, err := resource.ParseQuantity(text(q, "one"))
	if err != nil {
		return nil, err
	}
	other, err := resource.ParseQuantity(text(q, "other"))
	if err != nil {
		return nil, err
	}
	sum, difference := one.DeepCopy(), one.DeepCopy()
	sum.Add(other.DeepCopy())
	difference.Sub(other.DeepCopy())
	return map[string]any{"compare": one.Cmp(other), "sum": show(sum), "difference": show(difference)}, nil
}

func age(q question) (any, error) {
	nanoseconds := q["nanoseconds"].(int64)
	return duration.HumanDuration(time.Duration(nanoseconds)), nil
}
