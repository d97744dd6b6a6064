// Command informer follows pods, nodes and daemon sets as a controller does, and prints a JSON line for each change.
//
// With -create NAME it waits for its caches, creates a pod of that name and deletes it once the cache has it; it ends
// when the cache has lost it again. Otherwise it follows until its standard input ends.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Event   string `json:"event"`
	Kind    string `json:"kind,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"resourceVersion,omitempty"`
}

// printer writes lines and tells who waits for one.
type printer struct {
	mutex   sync.Mutex
	out     *json.Encoder
	printed chan line
}

func (p *printer) print(l line) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.out.Encode(l); err != nil {
		log.Fatal(err)
	}
	p.printed <- l
}

func (p *printer) object(event, kind string, object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		log.Fatal(err)
	}
	p.print(line{event, kind, accessor.GetName(), accessor.GetResourceVersion()})
}

func (p *printer) follow(kind string, informer cache.SharedIndexInformer) {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.object("add", kind, object) },
		UpdateFunc: func(_, object any) { p.object("update", kind, object) },
		DeleteFunc: func(object any) { p.object("delete", kind, object) },
	})
	if err != nil {
		log.Fatal(err)
	}
}

func (p *printer) await(event, name string) {
	for l := range p.printed {
		if l.Event == event && l.Kind == "pod" && l.Name == name {
			return
		}
	}
}

func main() {
	create := flag.String("create", "", "create and delete a pod of this name")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	p := &printer{out: json.NewEncoder(os.Stdout), printed: make(chan line, 1000)}
	factory := informers.NewSharedInformerFactory(client, 0)
	p.follow("pod", factory.Core().V1().Pods().Informer())
	p.follow("node", factory.Core().V1().Nodes().Informer())
	p.follow("daemonset", factory.Apps().V1().DaemonSets().Informer())
	factory.Start(ctx.Done())
	for kind, isSynced := range factory.WaitForCacheSync(ctx.Done()) {
		if !isSynced {
			log.Fatalf("the cache of %v was not filled", kind)
		}
	}
	p.print(line{Event: "synced"})

	if *create == "" {
		go func() {
			for range p.printed {
			}
		}()
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			log.Fatal(err)
		}
		return
	}
	createAndDelete(ctx, client, p, *create)
}

func createAndDelete(ctx context.Context, client kubernetes.Interface, p *printer, name string) {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	p.await("add", name)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		log.Fatal(err)
	}
	p.await("delete", name)
}
