// The OpenTelemetry Collector, with an exporter that writes traces to standard output: a batch a line, as OTLP says it in JSON.
package main

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otel-collector", Description: "OpenTelemetry Collector", Version: "0.160.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
				DefaultScheme:     "file",
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	lines := exporter.NewFactory(
		component.MustNewType("lines"),
		func() component.Config { return &struct{}{} },
		exporter.WithTraces(newLines, component.StabilityLevelStable),
	)
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](lines)
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, err
}

// lines writes what it is given.
type lines struct {
	component.StartFunc
	component.ShutdownFunc
	ptrace.JSONMarshaler
}

func newLines(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
	return &lines{}, nil
}

func (*lines) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (lines *lines) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	line, err := lines.MarshalTraces(traces)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	return err
}
