//go:build !before1_34 && !since1_35

package main

import (
	"k8s.io/client-go/informers"
	coregroup "k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// handedInformer gives its handlers what a command hands it, before the command is answered.
type handedInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (i *handedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return nil, nil
}

// put takes an object in its newest state.
func (i *handedInformer) put(object any) error {
	old, known, err := i.GetIndexer().Get(object)
	if err != nil {
		return err
	}
	if err := i.GetIndexer().Update(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		if known {
			handler.OnUpdate(old, object)
		} else {
			handler.OnAdd(object, false)
		}
	}
	return nil
}

// drop forgets an object; one that is not there is no error.
func (i *handedInformer) drop(key string) error {
	old, known, err := i.GetIndexer().GetByKey(key)
	if err != nil || !known {
		return err
	}
	if err := i.GetIndexer().Delete(old); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnDelete(old)
	}
	return nil
}

// handedInformers are the informers of a cluster; those of pods and nodes are handed their objects.
type handedInformers struct {
	informers.SharedInformerFactory
	pods, nodes *handedInformer
}

func newHandedInformers(factory informers.SharedInformerFactory) *handedInformers {
	return &handedInformers{
		SharedInformerFactory: factory,
		pods:                  &handedInformer{SharedIndexInformer: factory.Core().V1().Pods().Informer()},
		nodes:                 &handedInformer{SharedIndexInformer: factory.Core().V1().Nodes().Informer()},
	}
}

func (h *handedInformers) Core() coregroup.Interface {
	return handedCore{h.SharedInformerFactory.Core(), h}
}

type handedCore struct {
	coregroup.Interface
	handed *handedInformers
}

func (c handedCore) V1() corev1.Interface {
	return handedV1{c.Interface.V1(), c.handed}
}

type handedV1 struct {
	corev1.Interface
	handed *handedInformers
}

func (v handedV1) Pods() corev1.PodInformer {
	return handedPods{v.Interface.Pods(), v.handed.pods}
}

func (v handedV1) Nodes() corev1.NodeInformer {
	return handedNodes{v.Interface.Nodes(), v.handed.nodes}
}

type handedPods struct {
	corev1.PodInformer
	informer *handedInformer
}

func (p handedPods) Informer() cache.SharedIndexInformer { return p.informer }

type handedNodes struct {
	corev1.NodeInformer
	informer *handedInformer
}

func (n handedNodes) Informer() cache.SharedIndexInformer { return n.informer }
