//go:build !before1_34 && !since1_35

package main

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"simkubelet/oracle/wire"
)

// backlog is how many lists a stream may have unsent while its reader is slow.
const backlog = 1024

// stream is one open ListAndWatch; number counts those of the plugin.
type stream struct {
	number int
	outbox chan parcel
}

// parcel is a list to send, or the end of the stream.
type parcel struct {
	list []byte
	end  bool
	err  error
}

func (p *plugin) list() ([]byte, int, error) {
	p.mutex.Lock()
	response := &pluginapi.ListAndWatchResponse{}
	for _, d := range p.devices {
		response.Devices = append(response.Devices, d.message())
	}
	p.mutex.Unlock()
	encoded, err := proto.Marshal(response)
	return encoded, len(response.Devices), err
}

// deliver hands a parcel to every open stream, or with a turn to that one of them in the order in which they were opened,
// from 1 on; it tells how many there are.
func (p *plugin) deliver(one parcel, turn int) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	opened := slices.SortedFunc(maps.Keys(p.streams), func(a, b *stream) int { return a.number - b.number })
	if turn > len(opened) {
		return len(opened), fmt.Errorf("there are %d streams, none is number %d", len(opened), turn)
	}
	if turn > 0 {
		opened = opened[turn-1 : turn]
	}
	for _, s := range opened {
		select {
		case s.outbox <- one:
		default:
			return len(p.streams), fmt.Errorf("a stream's reader is %d lists behind", backlog)
		}
	}
	return len(p.streams), nil
}

func (p *plugin) send(a sendArguments) (wire.Answer, error) {
	encoded, _, err := p.list()
	if err != nil {
		return nil, err
	}
	return p.deliverBytes(encoded, a.Turn)
}

func (p *plugin) deliverBytes(encoded []byte, turn int) (wire.Answer, error) {
	sendTime := wire.Now()
	streams, err := p.deliver(parcel{list: encoded}, turn)
	return wire.Answer{"message_bytes": len(encoded), "streams": streams, "send_t": sendTime}, err
}

type sendArguments struct {
	Turn int `json:"turn"`
}

type rawArguments struct {
	Hex string `json:"hex"`
}

func (p *plugin) sendRaw(a rawArguments) (wire.Answer, error) {
	encoded, err := hex.DecodeString(a.Hex)
	if err != nil {
		return nil, err
	}
	return p.deliverBytes(encoded, 0)
}

type closeArguments struct {
	Error   bool   `json:"error"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// closeStream ends every stream: well, or with a status.
func (p *plugin) closeStream(a closeArguments) (wire.Answer, error) {
	end := parcel{end: true}
	if a.Error || a.Code != "" || a.Message != "" {
		code, err := parseCode(a.Code)
		if err != nil {
			return nil, err
		}
		end.err = status.Error(code, a.Message)
	}
	streams, err := p.deliver(end, 0)
	return wire.Answer{"streams": streams}, err
}

func (p *plugin) countStreams(none) (wire.Answer, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return wire.Answer{"streams": len(p.streams)}, nil
}

func (p *plugin) size(none) (wire.Answer, error) {
	encoded, count, err := p.list()
	return wire.Answer{"message_bytes": len(encoded), "devices": count}, err
}

// parseCode reads a status code by its name in gRPC's Go package, as in "ResourceExhausted"; "" is Internal.
func parseCode(name string) (codes.Code, error) {
	if name == "" {
		return codes.Internal, nil
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code, nil
		}
	}
	return codes.Unknown, fmt.Errorf("%q is no gRPC status code", name)
}
