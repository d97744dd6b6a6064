package main

import (
	"bytes"
	"hash"
	"hash/fnv"

	hashutil "k8s.io/kubernetes/pkg/util/hash"
)

// listening is a hash that keeps what it is given.
type listening struct {
	hash.Hash
	heard bytes.Buffer
}

func (l *listening) Write(part []byte) (int, error) {
	l.heard.Write(part)
	return l.Hash.Write(part)
}

// hashedText is the text whose hash is the checkpoint's checksum.
func hashedText(data any) string {
	l := &listening{Hash: fnv.New32a()}
	hashutil.DeepHashObject(l, data)
	return l.heard.String()
}
