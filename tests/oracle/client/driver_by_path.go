//go:build before1_34

package main

const driversByPath = true
