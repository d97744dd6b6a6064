//go:build !before1_34 && !since1_35

package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"google.golang.org/grpc"

	"simkubelet/oracle/wire"
)

// plugin is the stub's whole state; `reset` makes it anew.
type plugin struct {
	mutex    sync.Mutex
	settings settings
	devices  []device
	rpcs     map[string]behaviour
	calls    *callLog
	streams  map[*stream]struct{}
	opened   int
	server   *grpc.Server
	served   chan struct{}
	watcher  *watcher
	again    int
	life     context.Context
	giveUp   context.CancelFunc
	last     chan func()
}

func newPlugin() *plugin {
	return &plugin{
		calls:   newCallLog(),
		rpcs:    map[string]behaviour{},
		streams: map[*stream]struct{}{},
		last:    make(chan func(), 1),
	}
}

func (p *plugin) handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		"register":      wire.Handle(p.registerCommand),
		"set_health":    wire.Handle(p.setHealth),
		"set_devices":   wire.Handle(p.setDevices),
		"add_device":    wire.Handle(p.addDevice),
		"remove_device": wire.Handle(p.removeDevice),
		"send":          wire.Handle(p.send),
		"send_raw":      wire.Handle(p.sendRaw),
		"close_stream":  wire.Handle(p.closeStream),
		"stop_server":   wire.Handle(p.stopServer),
		"start_server":  wire.Handle(p.startServer),
		"remove_socket": wire.Handle(p.removeSocket),
		"socket_exists": wire.Handle(p.socketExists),
		"set_options":   wire.Handle(p.setOptions),
		"set_rpc":       wire.Handle(p.setRPC),
		"calls":         wire.Handle(p.listCalls),
		"wait_call":     wire.Handle(p.waitCall),
		"streams":       wire.Handle(p.countStreams),
		"size":          wire.Handle(p.size),
		"reset":         wire.Handle(p.reset),
		"stats":         wire.Handle(p.stats),
		"now":           wire.Handle(func(none) (wire.Answer, error) { return nil, nil }),
		"die":           wire.Handle(p.die),
		"quit":          wire.Handle(p.quit),
	}
}

// none are the arguments of a command that has none.
type none struct{}

// begin serves, watches and registers as the settings say; the answer is the registration's, if one was made.
func (p *plugin) begin(s settings) (wire.Answer, error) {
	devices, err := numbered(s.Devices, s.Pattern, s.NUMA)
	if err != nil {
		return nil, err
	}
	p.mutex.Lock()
	p.settings, p.devices = s, devices
	p.life, p.giveUp = context.WithCancel(context.Background())
	p.mutex.Unlock()
	if err := p.serve(); err != nil {
		return nil, err
	}
	if s.Watch {
		if p.watcher, err = watch(s.Dir, p.comeBack); err != nil {
			return nil, err
		}
	}
	if !s.Register {
		return nil, nil
	}
	return p.register(registration{}, false), nil
}

// comeBack is what a plugin does when the kubelet has made its socket anew.
func (p *plugin) comeBack() {
	p.stop(false)
	if p.serve() == nil {
		// The socket may be bound, but not listened on yet.
		p.register(registration{}, true)
	}
	p.mutex.Lock()
	p.again++
	p.mutex.Unlock()
}

// reset ends all that a start began and starts anew, with the settings of a new process unless told otherwise.
func (p *plugin) reset(s resetSettings) (wire.Answer, error) {
	p.end()
	p.mutex.Lock()
	p.rpcs, p.calls, p.again = map[string]behaviour{}, newCallLog(), 0
	p.mutex.Unlock()
	wanted := settings(s)
	if err := wanted.check(); err != nil {
		return nil, err
	}
	registered, err := p.begin(wanted)
	if err != nil || registered == nil {
		return nil, err
	}
	return wire.Answer{"register": registered}, nil
}

func (p *plugin) end() {
	if p.giveUp != nil {
		p.giveUp()
	}
	if p.watcher != nil {
		p.watcher.close()
		p.watcher = nil
	}
	p.stop(false)
}

func (p *plugin) socket() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return filepath.Join(p.settings.Dir, p.settings.Socket)
}

func (p *plugin) removeSocket(none) (wire.Answer, error) { return nil, os.Remove(p.socket()) }

func (p *plugin) socketExists(none) (wire.Answer, error) {
	_, err := os.Lstat(p.socket())
	return wire.Answer{"exists": err == nil}, nil
}

type optionArguments struct {
	PreStart  *bool `json:"prestart"`
	Preferred *bool `json:"preferred"`
}

func (p *plugin) setOptions(a optionArguments) (wire.Answer, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if a.PreStart != nil {
		p.settings.PreStart = *a.PreStart
	}
	if a.Preferred != nil {
		p.settings.Preferred = *a.Preferred
	}
	return nil, nil
}

func (p *plugin) stats(none) (wire.Answer, error) {
	answer, err := wire.Stats()
	if err == nil {
		p.mutex.Lock()
		answer["came_back"] = p.again
		p.mutex.Unlock()
	}
	return answer, err
}

func (p *plugin) quit(none) (wire.Answer, error) {
	p.end()
	p.last <- func() { os.Exit(0) }
	return nil, nil
}

// die ends the process as `kill -9` does, once the answer is out.
func (p *plugin) die(none) (wire.Answer, error) {
	p.last <- func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	return nil, nil
}

// answered ends the process where the command that was answered says so.
func (p *plugin) answered() {
	select {
	case end := <-p.last:
		end()
	default:
	}
}
