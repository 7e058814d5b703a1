package main

import (
	"fmt"
	"unsafe"

	_ "github.com/containerd/nri/pkg/adaptation" // what the names below are linked to
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// What collects the answers is no part of the API (pkg/adaptation/result.go), and without it one would need a runtime and
// plugins, which not every version can have in one process.

//go:linkname collectCreateContainerResult github.com/containerd/nri/pkg/adaptation.collectCreateContainerResult
func collectCreateContainerResult(*api.CreateContainerRequest) unsafe.Pointer

//go:linkname collectUpdateContainerResult github.com/containerd/nri/pkg/adaptation.collectUpdateContainerResult
func collectUpdateContainerResult(*api.UpdateContainerRequest) unsafe.Pointer

//go:linkname apply github.com/containerd/nri/pkg/adaptation.(*result).apply
func apply(result unsafe.Pointer, response interface{}, plugin string) error

//go:linkname createContainerResponse github.com/containerd/nri/pkg/adaptation.(*result).createContainerResponse
func createContainerResponse(result unsafe.Pointer) *api.CreateContainerResponse

//go:linkname updateContainerResponse github.com/containerd/nri/pkg/adaptation.(*result).updateContainerResponse
func updateContainerResponse(result unsafe.Pointer) *api.UpdateContainerResponse

func collectAdjustment(container []byte, adjustments [][]byte) (*api.ContainerAdjustment, error) {
	request := &api.CreateContainerRequest{Pod: &api.PodSandbox{Id: "pod"}, Container: &api.Container{}}
	if err := proto.Unmarshal(container, request.Container); err != nil {
		return nil, err
	}
	result := collectCreateContainerResult(request)
	for i, message := range adjustments {
		adjustment := &api.ContainerAdjustment{}
		if err := proto.Unmarshal(message, adjustment); err != nil {
			return nil, err
		}
		response := &api.CreateContainerResponse{Adjust: adjustment}
		if err := apply(result, response, fmt.Sprintf("plugin%d", i)); err != nil {
			return nil, err
		}
		// A later plugin, and external validators, get the container like this.
		if _, err := proto.Marshal(request); err != nil {
			return nil, err
		}
	}
	return createContainerResponse(result).GetAdjust(), nil
}

func collectUpdate(container, resources []byte, updates [][]byte) (*api.UpdateContainerResponse, error) {
	request := &api.UpdateContainerRequest{Container: &api.Container{}, LinuxResources: &api.LinuxResources{}}
	if err := proto.Unmarshal(container, request.Container); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(resources, request.LinuxResources); err != nil {
		return nil, err
	}
	result := collectUpdateContainerResult(request)
	for i, message := range updates {
		response := &api.UpdateContainerResponse{}
		if err := proto.Unmarshal(message, response); err != nil {
			return nil, err
		}
		if err := apply(result, response, fmt.Sprintf("plugin%d", i)); err != nil {
			return nil, err
		}
	}
	return updateContainerResponse(result), nil
}
