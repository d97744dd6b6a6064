package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"

	"simkubelet/oracle/wire"
)

// topologyArguments describe the machine's NUMA nodes and the topology manager's settings.
type topologyArguments struct {
	Policy    *string        `json:"topology_policy"`
	Scope     *string        `json:"topology_scope"`
	Options   map[string]any `json:"topology_options"`
	NUMA      *[]int         `json:"numa"`
	Distances [][]uint64     `json:"distances"`
}

func (t topologyArguments) merged(newer topologyArguments) topologyArguments {
	if newer.Policy != nil {
		t.Policy = newer.Policy
	}
	if newer.Scope != nil {
		t.Scope = newer.Scope
	}
	if newer.Options != nil {
		t.Options = newer.Options
	}
	if newer.NUMA != nil {
		t.NUMA = newer.NUMA
	}
	if newer.Distances != nil {
		t.Distances = newer.Distances
	}
	return t
}

func (t topologyArguments) policy() string {
	if t.Policy == nil {
		return topologymanager.PolicyNone
	}
	return *t.Policy
}

func (t topologyArguments) scope() string {
	if t.Scope == nil {
		return "container"
	}
	return *t.Scope
}

// options writes the values as the kubelet's configuration holds them: texts.
func (t topologyArguments) options() map[string]string {
	texts := map[string]string{}
	for name, value := range t.Options {
		texts[name] = fmt.Sprint(value)
	}
	return texts
}

// distance is that of two NUMA nodes, by their places in `numa`; 10 and 20 are what firmware commonly says.
func (t topologyArguments) distance(from, to int) uint64 {
	if t.Distances != nil {
		return t.Distances[from][to]
	}
	if from == to {
		return 10
	}
	return 20
}

func (t topologyArguments) check() error {
	if t.Distances == nil {
		return nil
	}
	if t.NUMA == nil || len(t.Distances) != len(*t.NUMA) {
		return fmt.Errorf("distances has %d rows, not one for each NUMA node", len(t.Distances))
	}
	for i, row := range t.Distances {
		if len(row) != len(t.Distances) {
			return fmt.Errorf("distances[%d] has %d columns, not %d", i, len(row), len(t.Distances))
		}
	}
	return nil
}

// shortTopology is the command `topology`: the same settings under short names, for the next start.
type shortTopology struct {
	Policy    *string        `json:"policy"`
	Scope     *string        `json:"scope"`
	Options   map[string]any `json:"options"`
	NUMA      *[]int         `json:"numa"`
	Distances [][]uint64     `json:"distances"`
}

func (o *oracle) setTopology(a shortTopology) (wire.Answer, error) {
	o.settings.topologyArguments = o.settings.topologyArguments.merged(topologyArguments(a))
	return nil, nil
}

type affinityArguments struct {
	containerName
	Nodes     *[]int `json:"nodes"`
	Preferred bool   `json:"preferred"`
}

func (o *oracle) setAffinity(a affinityArguments) (wire.Answer, error) {
	hint := topologymanager.TopologyHint{Preferred: a.Preferred}
	if a.Nodes != nil {
		mask, err := newMask(*a.Nodes)
		if err != nil {
			return nil, err
		}
		hint.NUMANodeAffinity = mask
	}
	o.affinity.set(a.Pod, a.Container, hint)
	return nil, nil
}

func (o *oracle) getAffinity(a containerName) (wire.Answer, error) {
	return hintAnswer(getAffinity(o.affinity, a.Pod, a.Container)), nil
}

func (o *oracle) topologyHints(a containerName) (wire.Answer, error) {
	pod, container, err := o.findContainer(a)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"hints": hintAnswers(topologyHints(o.manager, pod, container))}, nil
}

func (o *oracle) podTopologyHints(a podName) (wire.Answer, error) {
	pod, err := o.pods.find(a.Pod)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"hints": hintAnswers(podTopologyHints(o.manager, pod))}, nil
}

func hintAnswer(hint topologymanager.TopologyHint) wire.Answer {
	var nodes []int
	if hint.NUMANodeAffinity != nil {
		nodes = append([]int{}, hint.NUMANodeAffinity.GetBits()...)
	}
	return wire.Answer{"nodes": nodes, "preferred": hint.Preferred}
}

// hintAnswers orders the hints by their text: the manager's own order follows from its iteration.
func hintAnswers(hints map[string][]topologymanager.TopologyHint) map[string][]wire.Answer {
	answers := map[string][]wire.Answer{}
	for resource, list := range hints {
		if list == nil {
			answers[resource] = nil
			continue
		}
		sorted := make([]wire.Answer, 0, len(list))
		for _, hint := range list {
			sorted = append(sorted, hintAnswer(hint))
		}
		slices.SortFunc(sorted, func(a, b wire.Answer) int { return strings.Compare(text(a), text(b)) })
		answers[resource] = sorted
	}
	return answers
}

func text(answer wire.Answer) string {
	encoded, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

func (t topologyArguments) nodes() []numaNode {
	if t.NUMA == nil {
		return nil
	}
	nodes := []numaNode{}
	for i, id := range *t.NUMA {
		node := numaNode{Id: id}
		for j := range *t.NUMA {
			node.Distances = append(node.Distances, t.distance(i, j))
		}
		nodes = append(nodes, node)
	}
	return nodes
}
