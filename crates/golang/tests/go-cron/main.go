// Records what robfig/cron makes of crontabs: `go run . > ../it/cron.jsonl`.
//
// Writes one JSON object per line: {"spec": …, "after": seconds, "next": [seconds, …]} or {"spec": …, "error": …}.
// A schedule that never holds has an empty "next".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

type answer struct {
	Spec  string  `json:"spec"`
	After int64   `json:"after,omitempty"`
	Next  []int64 `json:"next"`
	Error string  `json:"error,omitempty"`
}

// Zones whose clocks change at odd times, or by odd spans, among ordinary ones. None whose future is announced year by year: databases
// of different releases disagree about it.
var zones = []string{
	"", "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "America/Havana", "America/Asuncion",
	"America/St_Johns", "Asia/Tokyo", "Asia/Kathmandu", "Asia/Tehran", "Asia/Beirut", "Africa/Cairo",
	"Australia/Lord_Howe", "Australia/Sydney", "Pacific/Apia", "Pacific/Chatham", "Atlantic/Azores", "Antarctica/Troll",
	"America/Nuuk", "Asia/Gaza", "Europe/Dublin", "Pacific/Kiritimati",
}

var broken = []string{
	"", "*", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 32 * *", "* * * 13 *", "* * * * 7", "*/0 * * * *", "-1 * * * *",
	"5-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "a * * * *", "* * * foo *", "* * * * mo", "@", "@daily ", "@every", "@every x",
	"@every 1", "TZ=Nowhere * * * * *", "CRON_TZ=UTC  * * * *", "99999999999999999999 * * * *", "+5 * * * *", "* * L * *", "1.5 * * * *",
	"*-5/2 * * * *", "?-3 * * * *", "- * * * *", "/ * * * *", "5/ * * * *", "/5 * * * *", "0 0 31 2 *", "0 0 30 feb ?",
}

func main() {
	random := rand.New(rand.NewSource(1))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if len(os.Args) > 1 && os.Args[1] == "zones" {
		if err := recordZones(encoder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	for _, spec := range broken {
		_ = encoder.Encode(ask(spec, 1_700_000_000))
	}
	for range 2500 {
		if answer, ok := askPatiently(spec(random), moment(random)); ok {
			_ = encoder.Encode(answer)
		}
	}
}

// The library searches for ever where clocks skip midnight in some ways. Such a question is left out.
func askPatiently(spec string, after int64) (answer, bool) {
	answered := make(chan answer, 1)
	go func() { answered <- ask(spec, after) }()
	select {
	case answer := <-answered:
		return answer, true
	case <-time.After(3 * time.Second):
		fmt.Fprintln(os.Stderr, "no answer:", spec, after)
		return answer{}, false
	}
}

func ask(spec string, after int64) answer {
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return answer{Spec: spec, Error: err.Error()}
	}
	next, at := []int64{}, time.Unix(after, 0).UTC()
	for range 4 {
		if at = schedule.Next(at); at.IsZero() {
			break
		}
		next = append(next, at.Unix())
	}
	return answer{Spec: spec, After: after, Next: next}
}

// A second between 1996 and 2036, often near a change of clocks in the north or in the south.
func moment(random *rand.Rand) int64 {
	year := 1996 + random.Intn(40)
	if random.Intn(3) == 0 {
		return time.Date(year, 1, 1, 0, 0, random.Intn(365*86400), 0, time.UTC).Unix()
	}
	month := []time.Month{time.March, time.April, time.September, time.October, time.November}[random.Intn(5)]
	return time.Date(year, month, 1, 0, 0, random.Intn(31*86400), 0, time.UTC).Unix()
}

func spec(random *rand.Rand) string {
	zone := zones[random.Intn(len(zones))]
	prefix := ""
	if zone != "" {
		prefix = []string{"TZ=", "CRON_TZ="}[random.Intn(2)] + zone + " "
	}
	if random.Intn(20) == 0 {
		every := fmt.Sprintf("@every %dm%ds", random.Intn(300), random.Intn(60))
		return prefix + []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", every}[random.Intn(8)]
	}
	fields := []string{
		field(random, 0, 59, nil), hours(random), field(random, 1, 31, nil),
		field(random, 1, 12, []string{"jan", "Feb", "MAR", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}),
		field(random, 0, 6, []string{"sun", "Mon", "TUE", "wed", "thu", "fri", "sat"}),
	}
	return prefix + strings.Join(fields, " ")
}

// Hours in which clocks change are more interesting.
func hours(random *rand.Rand) string {
	if random.Intn(2) == 0 {
		return fmt.Sprint(random.Intn(4))
	}
	return field(random, 0, 23, nil)
}

func field(random *rand.Rand, low, high int, names []string) string {
	value := func() string {
		at := low + random.Intn(high-low+1)
		if names != nil && random.Intn(2) == 0 {
			return names[at-low]
		}
		return fmt.Sprint(at)
	}
	switch random.Intn(10) {
	case 0, 1, 2, 3:
		return "*"
	case 4:
		return "?"
	case 5:
		return fmt.Sprintf("*/%d", 1+random.Intn(high))
	case 6:
		return fmt.Sprintf("%s/%d", value(), 1+random.Intn(7))
	case 7:
		from := low + random.Intn(high-low+1)
		return fmt.Sprintf("%d-%d/%d", from, from+random.Intn(high-from+1), 1+random.Intn(3))
	case 8:
		return value() + "," + value()
	default:
		return value()
	}
}
