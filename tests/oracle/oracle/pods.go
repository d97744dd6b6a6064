package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"simkubelet/oracle/wire"
)

// podStore holds the node's pods in the order they came; some are no longer active.
type podStore struct {
	mutex    sync.Mutex
	order    []string
	known    map[string]*v1.Pod
	inactive map[string]bool
}

func newPodStore() *podStore {
	return &podStore{known: map[string]*v1.Pod{}, inactive: map[string]bool{}}
}

func (s *podStore) list(withInactive bool) []*v1.Pod {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pods := make([]*v1.Pod, 0, len(s.order))
	for _, uid := range s.order {
		if withInactive || !s.inactive[uid] {
			pods = append(pods, s.known[uid])
		}
	}
	return pods
}

func (s *podStore) active() []*v1.Pod { return s.list(false) }

func (s *podStore) add(pod *v1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	uid := string(pod.UID)
	if _, known := s.known[uid]; !known {
		s.order = append(s.order, uid)
	}
	s.known[uid] = pod
	delete(s.inactive, uid)
}

func (s *podStore) find(uid string) (*v1.Pod, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pod, known := s.known[uid]
	if !known {
		return nil, fmt.Errorf("no pod %q", uid)
	}
	return pod, nil
}

func (s *podStore) remove(uid string, forget bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.inactive[uid] = true
	if !forget {
		return
	}
	delete(s.known, uid)
	delete(s.inactive, uid)
	for i, other := range s.order {
		if other == uid {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

type containerArguments struct {
	Name        string              `json:"name"`
	Restartable bool                `json:"restartable"`
	Limits      map[string]quantity `json:"limits"`
}

// quantity is a number or the text of a Kubernetes quantity.
type quantity struct{ resource.Quantity }

func (q *quantity) UnmarshalJSON(raw []byte) error {
	text := string(bytes.TrimSpace(raw))
	if text[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	parsed, err := resource.ParseQuantity(text)
	q.Quantity = parsed
	return err
}

type podArguments struct {
	UID            string               `json:"uid"`
	Name           string               `json:"name"`
	Namespace      string               `json:"namespace"`
	InitContainers []containerArguments `json:"init_containers"`
	Containers     []containerArguments `json:"containers"`
}

func (o *oracle) addPod(a podArguments) (wire.Answer, error) {
	if a.Namespace == "" {
		a.Namespace = "default"
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(a.UID), Name: a.Name, Namespace: a.Namespace}}
	for _, c := range a.InitContainers {
		container := newContainer(c)
		if c.Restartable {
			always := v1.ContainerRestartPolicyAlways
			container.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	for _, c := range a.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, newContainer(c))
	}
	o.pods.add(pod)
	return nil, nil
}

func newContainer(a containerArguments) v1.Container {
	limits := v1.ResourceList{}
	for name, value := range a.Limits {
		limits[v1.ResourceName(name)] = value.Quantity
	}
	return v1.Container{Name: a.Name, Resources: v1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}}
}

// podName says which pod a command means, by its uid.
type podName struct {
	Pod string `json:"pod"`
}

func (o *oracle) removePod(a podName) (wire.Answer, error) {
	if _, err := o.pods.find(a.Pod); err != nil {
		return nil, err
	}
	o.pods.remove(a.Pod, false)
	return nil, nil
}

func (o *oracle) forgetPod(a podName) (wire.Answer, error) {
	if _, err := o.pods.find(a.Pod); err != nil {
		return nil, err
	}
	o.pods.remove(a.Pod, true)
	return nil, nil
}

// containerName says which container a command means.
type containerName struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

func (o *oracle) findContainer(a containerName) (*v1.Pod, *v1.Container, error) {
	pod, err := o.pods.find(a.Pod)
	if err != nil {
		return nil, nil, err
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if containers[i].Name == a.Container {
				return pod, &containers[i], nil
			}
		}
	}
	return nil, nil, fmt.Errorf("no container %q in pod %q", a.Container, a.Pod)
}
