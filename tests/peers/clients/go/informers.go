package main

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// useInformers keeps caches up to date, from lists that are streamed.
func useInformers(ctx context.Context, config *rest.Config) {
	expect(features.FeatureGates().Enabled(features.WatchListClient), "lists are streamed")
	client := binary(config)
	configMaps := client.CoreV1().ConfigMaps(namespace)
	add := func(name string) *corev1.ConfigMap {
		return got(configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"informed": "yes"},
		}}, metav1.CreateOptions{}))
	}
	add("before")
	define(ctx, config)

	narrow := func(options *metav1.ListOptions) { options.LabelSelector = "informed=yes" }
	factory := informers.NewSharedInformerFactoryWithOptions(client, time.Hour, informers.WithNamespace(namespace), informers.WithTweakListOptions(narrow))
	informer, lister := factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().ConfigMaps().Lister()
	events := make(chan string, 100)
	got(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { events <- "added " + object.(*corev1.ConfigMap).Name },
		UpdateFunc: func(_, object any) { events <- "updated " + object.(*corev1.ConfigMap).Name },
		DeleteFunc: func(object any) { events <- "deleted " + object.(*corev1.ConfigMap).Name },
	}))
	kinds := dynamicinformer.NewDynamicSharedInformerFactory(got(dynamic.NewForConfig(config)), time.Hour)
	sites := kinds.ForResource(websites)
	got(sites.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { events <- "added website" },
	}))
	factory.Start(ctx.Done())
	kinds.Start(ctx.Done())
	expect(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced, sites.Informer().HasSynced), "caches are filled")
	saw("%s", <-events)

	during := add("during")
	saw("%s", <-events)
	during.Data = map[string]string{"key": "value"}
	got(configMaps.Update(ctx, during, metav1.UpdateOptions{}))
	saw("%s", <-events)
	// Whoever does not match the selector any more is deleted for those who watch with it.
	during = got(configMaps.Get(ctx, "during", metav1.GetOptions{}))
	during.Labels = nil
	got(configMaps.Update(ctx, during, metav1.UpdateOptions{}))
	saw("%s", <-events)
	must(configMaps.Delete(ctx, "before", metav1.DeleteOptions{}))
	saw("%s", <-events)
	got(got(dynamic.NewForConfig(config)).Resource(websites).Namespace(namespace).Create(ctx, website("site", "example.org"), metav1.CreateOptions{}))
	saw("%s", <-events)
	saw("left: %d and %d", len(got(lister.List(labels.Everything()))), len(got(sites.Lister().List(labels.Everything()))))
}

// electLeaders lets two candidates take turns.
func electLeaders(ctx context.Context, config *rest.Config) {
	client := binary(config)
	leading := make(chan string)
	var running sync.WaitGroup
	candidate := func(name string) context.CancelFunc {
		mine, resign := context.WithCancel(ctx)
		lock := got(resourcelock.New(resourcelock.LeasesResourceLock, namespace, "throne", client.CoreV1(), client.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: name}))
		running.Go(func() {
			leaderelection.RunOrDie(mine, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leading <- name },
					OnStoppedLeading: func() {},
				},
			})
		})
		return resign
	}
	first := candidate("ada")
	saw("%s leads", <-leading)
	second := candidate("bob")
	lease := renewed(ctx, client)
	saw("the lease is of %s, for %d s", *lease.Spec.HolderIdentity, *lease.Spec.LeaseDurationSeconds)
	first()
	saw("%s leads", <-leading)
	lease = renewed(ctx, client)
	saw("the lease changed hands %d times", *lease.Spec.LeaseTransitions)
	second()
	running.Wait()
}

// renewed waits until a new leader has renewed its lease once, which it does at once. Whoever resigns meanwhile cancels the
// renewal, reads the lease and writes that it has no holder. If the cancelled write happens between the two, which no server
// can rule out, that is a conflict, and client-go does not try again: the lease lasts until it expires.
func renewed(ctx context.Context, client kubernetes.Interface) (lease *coordinationv1.Lease) {
	eventually(ctx, "the lease is renewed", func() bool {
		lease = got(client.CoordinationV1().Leases(namespace).Get(ctx, "throne", metav1.GetOptions{}))
		return lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time)
	})
	return lease
}
