//go:build !before1_34 && !since1_35

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"simkubelet/oracle/wire"
)

// registerWithin is how long a registration may take if nothing is said: longer than the kubelet's own dial, 10 s.
const registerWithin = 30_000

// quickly tries again at once where the kubelet has bound its socket but does not listen yet.
var quickly = backoff.Config{BaseDelay: 2 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}

// registration is a Register call; what is left out is as the plugin really is.
type registration struct {
	Version   *string `json:"version"`
	Endpoint  *string `json:"endpoint"`
	Resource  *string `json:"resource"`
	NoOptions bool    `json:"no_options"`
	TimeoutMS int     `json:"timeout_ms"`
}

func (p *plugin) registerCommand(r registration) (wire.Answer, error) {
	return p.register(r, false), nil
}

// register calls the kubelet; with `patience` it waits until one listens.
func (p *plugin) register(r registration, patience bool) wire.Answer {
	if r.TimeoutMS == 0 {
		r.TimeoutMS = registerWithin
	}
	p.mutex.Lock()
	life := p.life
	p.mutex.Unlock()
	ctx, cancel := context.WithTimeout(life, time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := p.call(ctx, p.request(r), patience); err != nil {
		told := status.Convert(err)
		return wire.Answer{
			"ok": false, "error": told.Message(), "code": told.Code().String(), "took_us": time.Since(start).Microseconds(),
		}
	}
	return wire.Answer{"ok": true, "took_us": time.Since(start).Microseconds()}
}

func (p *plugin) request(r registration) *pluginapi.RegisterRequest {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	request := &pluginapi.RegisterRequest{
		Version:      told(r.Version, pluginapi.Version),
		Endpoint:     told(r.Endpoint, p.settings.Socket),
		ResourceName: told(r.Resource, p.settings.Resource),
	}
	if !r.NoOptions {
		request.Options = &pluginapi.DevicePluginOptions{
			PreStartRequired:                p.settings.PreStart,
			GetPreferredAllocationAvailable: p.settings.Preferred,
		}
	}
	return request
}

func told(value *string, usual string) string {
	if value == nil {
		return usual
	}
	return *value
}

func (p *plugin) call(ctx context.Context, request *pluginapi.RegisterRequest, patience bool) error {
	p.mutex.Lock()
	kubelet := filepath.Join(p.settings.Dir, "kubelet.sock")
	p.mutex.Unlock()
	connection, err := grpc.NewClient("unix:"+kubelet,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quickly, MinConnectTimeout: time.Second}),
	)
	if err != nil {
		return fmt.Errorf("kubelet.sock: %w", err)
	}
	defer func() { _ = connection.Close() }()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, request, grpc.WaitForReady(patience))
	return err
}
