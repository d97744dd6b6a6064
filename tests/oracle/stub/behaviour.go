//go:build !before1_34 && !since1_35

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"

	"simkubelet/oracle/wire"
)

// behaviour is how one call is answered: after `ms` milliseconds (below zero: when the caller gives up), in a mode.
type behaviour struct {
	RPC      string          `json:"rpc"`
	Mode     string          `json:"mode"`
	MS       int             `json:"ms"`
	Code     string          `json:"code"`
	Message  string          `json:"message"`
	IDs      []string        `json:"ids"`
	Response json.RawMessage `json:"response"`
}

var modes = map[string][]string{
	"allocate":     {"", "full", "zero", "two", "empty", "custom", "error"},
	"preferred":    {"", "first", "last", "many", "few", "none", "empty", "unavailable", "ids", "error"},
	"prestart":     {"", "error"},
	"listandwatch": {"", "silent", "end", "error"},
	"options":      {"", "error"},
}

func (p *plugin) setRPC(b behaviour) (wire.Answer, error) {
	known, is := modes[b.RPC]
	if !is {
		return nil, fmt.Errorf("rpc is %q, not allocate, preferred, prestart, listandwatch or options", b.RPC)
	}
	if !slices.Contains(known, b.Mode) {
		return nil, fmt.Errorf("mode of %s is %q, not one of %q", b.RPC, b.Mode, known)
	}
	if _, err := parseCode(b.Code); err != nil {
		return nil, err
	}
	if b.Mode == "custom" {
		if _, err := customResponse(b.Response); err != nil {
			return nil, err
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rpcs[b.RPC] = b
	return nil, nil
}

func (p *plugin) behaviour(rpc string) behaviour {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.rpcs[rpc]
}

func (p *plugin) resource() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.settings.Resource
}

// before is the wait and, in mode error, the refusal.
func (b behaviour) before(ctx context.Context) error {
	if err := b.delay(ctx); err != nil {
		return err
	}
	if b.Mode != "error" {
		return nil
	}
	code, err := parseCode(b.Code)
	if err != nil {
		return err
	}
	return status.Error(code, b.Message)
}

func (b behaviour) delay(ctx context.Context) error {
	if b.MS == 0 {
		return nil
	}
	var over <-chan time.Time
	if b.MS > 0 {
		over = time.After(time.Duration(b.MS) * time.Millisecond)
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
