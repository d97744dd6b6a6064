//go:build !before1_34 && !since1_35

package main

import (
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec behind ours
	"google.golang.org/grpc/mem"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"simkubelet/oracle/wire"
)

// encoded is a message that is on the wire as it stands.
type encoded []byte

// codec passes encoded messages through and leaves the others to gRPC's own.
type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	if ready, is := message.(encoded); is {
		return mem.BufferSlice{mem.SliceBuffer(ready)}, nil
	}
	return c.CodecV2.Marshal(message)
}

func (p *plugin) serve() error {
	path := p.socket()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	// Its file is removed here, and only where that is wanted: another process may have taken the name.
	listener.SetUnlinkOnClose(false)
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}))
	pluginapi.RegisterDevicePluginServer(server, &service{plugin: p})
	served := make(chan struct{})
	p.mutex.Lock()
	p.server, p.served = server, served
	p.mutex.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	return nil
}

// stop breaks every connection; the socket's file goes, unless it is to be kept.
func (p *plugin) stop(keep bool) {
	p.mutex.Lock()
	server, served := p.server, p.served
	p.server, p.streams = nil, map[*stream]struct{}{}
	p.mutex.Unlock()
	if server == nil {
		return
	}
	server.Stop()
	<-served
	if !keep {
		_ = os.Remove(p.socket())
	}
}

type stopArguments struct {
	Mode string `json:"mode"`
}

func (p *plugin) stopServer(a stopArguments) (wire.Answer, error) {
	if a.Mode != "" && a.Mode != "keep" {
		return nil, fmt.Errorf("mode is %q, not keep", a.Mode)
	}
	p.stop(a.Mode == "keep")
	return nil, nil
}

func (p *plugin) startServer(none) (wire.Answer, error) {
	p.stop(false)
	return nil, p.serve()
}
