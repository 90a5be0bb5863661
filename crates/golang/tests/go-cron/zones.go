// Records years of schedules in every zone of Go's database: `go run . zones > ../it/cron_zones.jsonl`.
//
// Writes one JSON object per line: {"zone": …, "spec": …, "count": times, "hash": …}. The hash is FNV-1a of all times as 64-bit seconds.
package main

import (
	"archive/zip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

type years struct {
	Zone  string `json:"zone"`
	Spec  string `json:"spec"`
	Count int    `json:"count"`
	Hash  string `json:"hash"`
}

// Years that are past, because databases of different releases agree about them, and in which clocks changed in most places that do so.
var (
	from  = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

// What is in the hours in which clocks change.
var specs = []string{"30 2 * * *", "15 0,1,3 * * *"}

func recordZones(encoder *json.Encoder) error {
	database, err := zip.OpenReader(filepath.Join(runtime.GOROOT(), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return err
	}
	defer database.Close()
	for _, file := range database.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		for _, spec := range specs {
			if years, ok := walkPatiently(file.Name, spec); ok {
				if err := encoder.Encode(years); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// The library searches for ever where clocks skip midnight in some ways. Such a question is left out.
func walkPatiently(zone, spec string) (years, bool) {
	walked := make(chan years, 1)
	go func() { walked <- walk(zone, spec) }()
	select {
	case years := <-walked:
		return years, years.Count > 0
	case <-time.After(20 * time.Second):
		fmt.Fprintln(os.Stderr, "no answer:", zone, spec)
		return years{}, false
	}
}

func walk(zone, spec string) years {
	schedule, err := cron.ParseStandard("CRON_TZ=" + zone + " " + spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, zone, err)
		return years{}
	}
	hash, count := fnv.New64a(), 0
	for at := schedule.Next(from); at.Before(until); at = schedule.Next(at) {
		var bytes [8]byte
		binary.BigEndian.PutUint64(bytes[:], uint64(at.Unix()))
		_, _ = hash.Write(bytes[:])
		count++
	}
	return years{Zone: zone, Spec: spec, Count: count, Hash: fmt.Sprintf("%016x", hash.Sum64())}
}
