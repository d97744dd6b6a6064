package main

import (
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"

	"simkubelet/oracle/wire"
)

// admitter asks the real topology manager, as the kubelet does for each pod, with the device manager as its provider.
type admitter struct {
	topology topologymanager.Manager
	provider *provider
}

// provider is the device manager as a hint provider that remembers which container it failed for.
type provider struct {
	*devicemanager.ManagerImpl

	mutex     sync.Mutex
	container string
	err       error
}

func newAdmitter(topology topologymanager.Manager, manager *devicemanager.ManagerImpl) *admitter {
	p := &provider{ManagerImpl: manager}
	addHintProvider(topology, p)
	return &admitter{topology: topology, provider: p}
}

func (p *provider) noted(container *v1.Container, err error) error {
	if err != nil {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.container, p.err = container.Name, err
	}
	return err
}

// failure returns what failed since the last call: the container's name and the device manager's own words.
func (p *provider) failure() (string, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	container, err := p.container, p.err
	p.container, p.err = "", nil
	return container, err
}

func (o *oracle) allocate(a containerName) (wire.Answer, error) {
	pod, container, err := o.findContainer(a)
	if err != nil {
		return nil, err
	}
	return nil, allocate(o.manager, pod, container)
}

// admit answers with the device manager's own error under the policy none, else with the topology manager's message.
func (o *oracle) admit(a podName) (wire.Answer, error) {
	pod, err := o.pods.find(a.Pod)
	if err != nil {
		return nil, err
	}
	o.admitter.provider.failure()
	result := admitPod(o.admitter.topology, pod, o.pods.active())
	if result.Admit {
		return nil, nil
	}
	answer := wire.Answer{"reason": result.Reason, "message": result.Message}
	container, cause := o.admitter.provider.failure()
	if cause != nil {
		answer["container"] = container
	}
	if cause == nil || o.settings.policy() != topologymanager.PolicyNone {
		cause = errors.New(result.Message)
	}
	return answer, cause
}
