package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"simkubelet/oracle/wire"
)

var storedChecksum = regexp.MustCompile(`("Checksum"\s*:\s*)\d+`)

func (o *oracle) checkpointPath() string { return filepath.Join(o.dir, "kubelet_internal_checkpoint") }

func (o *oracle) checkpoint(none) (wire.Answer, error) {
	content, err := os.ReadFile(o.checkpointPath())
	if err != nil {
		return nil, err
	}
	return wire.Answer{"text": string(content), "bytes": len(content)}, nil
}

// entryAnswer is what one container holds of one resource; the keys of devices are NUMA nodes.
type entryAnswer struct {
	Pod       string              `json:"pod"`
	Container string              `json:"container"`
	Resource  string              `json:"resource"`
	Devices   map[string][]string `json:"devices"`
	AllocResp []byte              `json:"alloc_resp,omitempty"`
}

func (o *oracle) checkpointEntries(none) (wire.Answer, error) {
	content, err := os.ReadFile(o.checkpointPath())
	if err != nil {
		return nil, err
	}
	var data checkpoint.Data
	if err := data.UnmarshalCheckpoint(content); err != nil {
		return nil, err
	}
	entries := []entryAnswer{}
	for _, entry := range data.Data.PodDeviceEntries {
		found := entryAnswer{entry.PodUID, entry.ContainerName, entry.ResourceName, map[string][]string{}, entry.AllocResp}
		for node, ids := range entry.DeviceIDs {
			found.Devices[strconv.FormatInt(node, 10)] = sorted(ids)
		}
		entries = append(entries, found)
	}
	slices.SortFunc(entries, func(a, b entryAnswer) int {
		return slices.Compare([]string{a.Pod, a.Container, a.Resource}, []string{b.Pod, b.Container, b.Resource})
	})
	registered := map[string][]string{}
	for resource, ids := range data.Data.RegisteredDevices {
		registered[resource] = sorted(ids)
	}
	return wire.Answer{"entries": entries, "registered": registered}, nil
}

func sorted(ids []string) []string {
	copied := append([]string{}, ids...)
	slices.Sort(copied)
	return copied
}

// checkpointText is a checkpoint: the given one, else the file's.
type checkpointText struct {
	Text *string `json:"text"`
}

func (o *oracle) textOf(a checkpointText) (string, error) {
	if a.Text != nil {
		return *a.Text, nil
	}
	content, err := os.ReadFile(o.checkpointPath())
	return string(content), err
}

func (o *oracle) checksum(a checkpointText) (wire.Answer, error) {
	content, err := o.textOf(a)
	if err != nil {
		return nil, err
	}
	var data checkpoint.Data
	if err := data.UnmarshalCheckpoint([]byte(content)); err != nil {
		return nil, err
	}
	return wire.Answer{
		"hashed":   hashedText(data.Data),
		"checksum": uint64(checksum.New(data.Data)),
		"stored":   uint64(data.Checksum),
	}, nil
}

// fixChecksum writes the checkpoint with the checksum that its data have; all other bytes stay.
func (o *oracle) fixChecksum(a checkpointText) (wire.Answer, error) {
	content, err := o.textOf(a)
	if err != nil {
		return nil, err
	}
	var data checkpoint.Data
	if err := data.UnmarshalCheckpoint([]byte(content)); err != nil {
		return nil, err
	}
	right := uint64(checksum.New(data.Data))
	if storedChecksum.MatchString(content) {
		content = storedChecksum.ReplaceAllString(content, "${1}"+strconv.FormatUint(right, 10))
	} else {
		end := strings.LastIndex(content, "}")
		content = content[:end] + `,"Checksum":` + strconv.FormatUint(right, 10) + content[end:]
	}
	if err := os.WriteFile(o.checkpointPath(), []byte(content), 0o600); err != nil {
		return nil, err
	}
	return wire.Answer{"text": content, "checksum": right}, nil
}

type writeArguments struct {
	Text string `json:"text"`
}

func (o *oracle) writeCheckpoint(a writeArguments) (wire.Answer, error) {
	if err := os.WriteFile(o.checkpointPath(), []byte(a.Text), 0o600); err != nil {
		return nil, err
	}
	return wire.Answer{"bytes": len(a.Text)}, nil
}

type fileAnswer struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Mode string `json:"mode"`
}

// list tells what lies in the device plugin folder, by name.
func (o *oracle) list(none) (wire.Answer, error) {
	found, err := os.ReadDir(o.dir)
	if err != nil {
		return nil, err
	}
	files := []fileAnswer{}
	for _, entry := range found {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		files = append(files, fileAnswer{entry.Name(), kindOf(info.Mode()), strconv.FormatUint(uint64(info.Mode().Perm()), 8)})
	}
	return wire.Answer{"files": files}, nil
}

func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "dir"
	case mode&os.ModeSocket != 0:
		return "socket"
	case mode&os.ModeSymlink != 0:
		return "link"
	}
	return "file"
}
