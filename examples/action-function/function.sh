#!/bin/sh
# Decides where a backup goes. Reads a RunFunctionRequest, and writes a RunFunctionResponse.
exec jq '
  if (.input.bucket // "") == "" then
    {results: [{severity: "SEVERITY_FATAL", message: "argument `bucket` is required"}]}
  else
    {output: {path: "\(.input.bucket)/\(.context["ferroplane.io/phase"].namespace)/\(.input.name)"}}
  end'
