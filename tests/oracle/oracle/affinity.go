package main

import (
	"sync"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// affinityStore answers the device manager: with what `set_affinity` put here, else with the topology manager's choice.
type affinityStore struct {
	manager topologymanager.Manager

	mutex sync.Mutex
	told  map[[2]string]topologymanager.TopologyHint
}

func newAffinityStore() *affinityStore {
	return &affinityStore{told: map[[2]string]topologymanager.TopologyHint{}}
}

func (s *affinityStore) set(pod, container string, hint topologymanager.TopologyHint) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.told[[2]string{pod, container}] = hint
}

func (s *affinityStore) find(pod, container string) (topologymanager.TopologyHint, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	hint, told := s.told[[2]string{pod, container}]
	return hint, told
}

// GetPolicy is the topology manager's.
func (s *affinityStore) GetPolicy() topologymanager.Policy { return s.manager.GetPolicy() }

func newMask(nodes []int) (bitmask.BitMask, error) { return bitmask.NewBitMask(nodes...) }
