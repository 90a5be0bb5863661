package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// binary is how the clients of Kubernetes' own programs speak: they send protobuf, and take what they get.
func binary(config *rest.Config) *kubernetes.Clientset {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return got(kubernetes.NewForConfig(config))
}

// useTypedClients does everything there is to do with a ConfigMap.
func useTypedClients(ctx context.Context, config *rest.Config) {
	configMaps := binary(config).CoreV1().ConfigMaps(namespace)
	first := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"app": "typed"}},
		Data:       map[string]string{"text": "züge"},
		BinaryData: map[string][]byte{"bytes": {0, 159, 146, 150}},
	}
	created := got(configMaps.Create(ctx, first, metav1.CreateOptions{FieldManager: "typed"}))
	expect(created.UID != "" && created.ResourceVersion != "" && !created.CreationTimestamp.IsZero(), "metadata is filled in")
	expect(created.Data["text"] == "züge" && string(created.BinaryData["bytes"]) == "\x00\x9f\x92\x96", "data came through", created)
	expect(created.ManagedFields[0].Manager == "typed", "the manager is known", created.ManagedFields)
	_, err := configMaps.Create(ctx, first, metav1.CreateOptions{})
	refused(err, apierrors.IsAlreadyExists, "created twice")
	_, err = configMaps.Get(ctx, "nobody", metav1.GetOptions{})
	refused(err, apierrors.IsNotFound, "got nothing")
	_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}, metav1.CreateOptions{})
	refused(err, apierrors.IsInvalid, "created with a bad name")
	saw("created, and refused what is wrong")

	stale := created.DeepCopy()
	created.Data["text"] = "second"
	updated := got(configMaps.Update(ctx, created, metav1.UpdateOptions{}))
	_, err = configMaps.Update(ctx, stale, metav1.UpdateOptions{})
	refused(err, apierrors.IsConflict, "updated what had changed")
	must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current := got(configMaps.Get(ctx, "one", metav1.GetOptions{}))
		current.Data["retried"] = "yes"
		_, err := configMaps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	}))
	dry := updated.DeepCopy()
	dry.ResourceVersion, dry.Data = "", map[string]string{"dry": "run"}
	got(configMaps.Update(ctx, dry, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}))
	expect(got(configMaps.Get(ctx, "one", metav1.GetOptions{})).Data["dry"] == "", "a dry run changes nothing")
	saw("updated, after a conflict")

	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op": "add", "path": "/data/json", "value": "1"}]`,
		types.MergePatchType:          `{"data": {"merge": "1", "retried": null}}`,
		types.StrategicMergePatchType: `{"data": {"strategic": "1"}, "metadata": {"finalizers": ["example.org/one"]}}`,
	} {
		got(configMaps.Patch(ctx, "one", kind, []byte(patch), metav1.PatchOptions{}))
	}
	patched := got(configMaps.Get(ctx, "one", metav1.GetOptions{}))
	expect(len(patched.Data) == 4 && len(patched.Finalizers) == 1, "three patches", patched)
	saw("patched in three ways")

	wanted := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"key": "mine"}).WithLabels(map[string]string{"app": "typed"})
	applied := got(configMaps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "mine"}))
	expect(applied.ManagedFields[0].Operation == metav1.ManagedFieldsOperationApply, "applied", applied.ManagedFields)
	theirs := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"key": "theirs"})
	_, err = configMaps.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "theirs"})
	refused(err, apierrors.IsConflict, "applied over another manager")
	taken := got(configMaps.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "theirs", Force: true}))
	extracted := got(applycorev1.ExtractConfigMap(taken, "theirs"))
	expect(extracted.Data["key"] == "theirs", "what is theirs can be extracted", extracted)
	saw("applied, with a conflict")

	watcher := got(configMaps.Watch(ctx, metav1.ListOptions{LabelSelector: "app=pages", ResourceVersion: taken.ResourceVersion}))
	for i := range 7 {
		labels := map[string]string{"app": "pages", "odd": fmt.Sprint(i%2 == 1)}
		got(configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "page-", Labels: labels}}, metav1.CreateOptions{}))
	}
	counts := []int{}
	page := metav1.ListOptions{LabelSelector: "app=pages", Limit: 3}
	for {
		list := got(configMaps.List(ctx, page))
		counts = append(counts, len(list.Items))
		if page.Continue = list.Continue; page.Continue == "" {
			break
		}
	}
	odd := got(configMaps.List(ctx, metav1.ListOptions{LabelSelector: "app in (pages),odd!=false"}))
	byName := got(configMaps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=one"}))
	saw("listed %v, %d odd, %d by name", counts, len(odd.Items), len(byName.Items))
	for range 7 {
		event := <-watcher.ResultChan()
		expect(event.Type == watch.Added, "watched", event)
	}
	must(configMaps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=pages"}))
	for range 7 {
		event := <-watcher.ResultChan()
		expect(event.Type == watch.Deleted, "watched", event)
	}
	watcher.Stop()
	saw("watched 7 come and go")

	wrong := types.UID("somebody-else")
	err = configMaps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	refused(err, apierrors.IsConflict, "deleted somebody else")
	must(configMaps.Delete(ctx, "one", metav1.DeleteOptions{}))
	held := got(configMaps.Get(ctx, "one", metav1.GetOptions{}))
	expect(held.DeletionTimestamp != nil, "the finalizer holds it")
	got(configMaps.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}))
	_, err = configMaps.Get(ctx, "one", metav1.GetOptions{})
	refused(err, apierrors.IsNotFound, "got what is gone")
	saw("deleted, once its finalizer let go")
}

// useTokens works as a service account that may do one thing.
func useTokens(ctx context.Context, config *rest.Config) {
	admin := binary(config)
	account := got(admin.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: named("robot")}, metav1.CreateOptions{}))
	rule := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	got(admin.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: named("reader"), Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}))
	got(admin.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: named("reader"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"}},
	}, metav1.CreateOptions{}))
	seconds := int64(1200)
	token := got(admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})).Status.Token
	review := got(admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{}))
	saw("the token is of %s", review.Status.User.Username)

	inside := rest.AnonymousClientConfig(config)
	inside.BearerToken = token
	robot := binary(inside)
	got(robot.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{}))
	_, err := robot.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	refused(err, apierrors.IsForbidden, "listed secrets")
	saw("%v", err)
	who := got(robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
	saw("groups: %v", who.Status.UserInfo.Groups)
	for _, verb := range []string{"list", "delete"} {
		access := got(robot.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Resource: "configmaps",
			}},
		}, metav1.CreateOptions{}))
		saw("may %s: %v", verb, access.Status.Allowed)
	}
	inside.BearerToken = "not-a-token"
	_, err = binary(inside).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	refused(err, apierrors.IsUnauthorized, "used a token that is none")
	imitation := rest.CopyConfig(config)
	imitation.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:robot"}
	_, err = binary(imitation).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	refused(err, apierrors.IsForbidden, "listed secrets as the robot")
	saw("strangers are refused, and so is who acts as the robot")
}
