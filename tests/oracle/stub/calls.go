//go:build !before1_34 && !since1_35

package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"simkubelet/oracle/wire"
)

// call is one call of the kubelet, with the ids it named: in sorted order, since the kubelet takes them from a set.
type call struct {
	RPC      string       `json:"rpc"`
	IDs      [][]string   `json:"ids,omitempty"`
	Requests []preference `json:"requests,omitempty"`
	T        int64        `json:"t"`
}

// preference is one container's request to choose, in the order of the plugin's list.
type preference struct {
	Available   []string `json:"available"`
	MustInclude []string `json:"must_include"`
	Size        int      `json:"size"`
}

// first takes what must be included, then what comes first, up to a number of ids.
func (p preference) first(size int) []string {
	chosen := slices.Clone(p.MustInclude)
	for _, id := range p.Available {
		if len(chosen) >= size {
			break
		}
		if !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen[:min(size, len(chosen))]
}

func ordered(ids []string) []string {
	copied := append([]string{}, ids...)
	slices.Sort(copied)
	return copied
}

// listed orders ids as the plugin lists them.
func (p *plugin) listed(ids []string) []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	place := make(map[string]int, len(p.devices))
	for i, d := range p.devices {
		place[d.ID] = i
	}
	copied := ordered(ids)
	slices.SortStableFunc(copied, func(a, b string) int { return place[a] - place[b] })
	return copied
}

// callLog keeps the calls in the order they came.
type callLog struct {
	mutex sync.Mutex
	calls []call
	grown chan struct{}
}

func newCallLog() *callLog { return &callLog{grown: make(chan struct{})} }

func (l *callLog) add(c call) {
	c.T = wire.Now()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.calls = append(l.calls, c)
	close(l.grown)
	l.grown = make(chan struct{})
}

// snapshot returns the calls so far and a channel that is closed when another comes.
func (l *callLog) snapshot() ([]call, <-chan struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]call{}, l.calls...), l.grown
}

func (p *plugin) log() *callLog {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.calls
}

func (p *plugin) listCalls(none) (wire.Answer, error) {
	calls, _ := p.log().snapshot()
	return wire.Answer{"calls": calls}, nil
}

type waitArguments struct {
	RPC       string `json:"rpc"`
	Count     int    `json:"count"`
	TimeoutMS int    `json:"timeout_ms"`
}

// waitCall waits until an RPC was called `count` times (once, if not said) since the start, and tells the last such call.
func (p *plugin) waitCall(a waitArguments) (wire.Answer, error) {
	wanted := max(a.Count, 1)
	if a.TimeoutMS == 0 {
		a.TimeoutMS = 5000
	}
	timeout := time.After(time.Duration(a.TimeoutMS) * time.Millisecond)
	for {
		calls, grown := p.log().snapshot()
		seen := slices.DeleteFunc(calls, func(c call) bool { return c.RPC != a.RPC })
		if len(seen) >= wanted {
			return wire.Answer{"count": len(seen), "call": seen[wanted-1]}, nil
		}
		select {
		case <-grown:
		case <-timeout:
			return wire.Answer{"count": len(seen)}, fmt.Errorf("%s was not called within %d ms", a.RPC, a.TimeoutMS)
		}
	}
}
