module ferroplane.io/crates/golang/tests/go-yaml

go 1.26.0

require (
	gopkg.in/yaml.v3 v3.0.1
	k8s.io/apimachinery v0.36.4
)

require (
	go.yaml.in/yaml/v2 v2.4.3 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
