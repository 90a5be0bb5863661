// Uses an API server with @kubernetes/client-node, and says what it saw.
//
// The argument names a scenario: client, watch or informer. Each looks at its own results and fails loudly. The server
// is the one that KUBECONFIG names. It is plain JavaScript so that setting it up needs no compiler.

import {
  ApiException,
  ApiextensionsV1Api,
  AppsV1Api,
  AuthenticationV1Api,
  CoreV1Api,
  CustomObjectsApi,
  DELETE,
  ERROR,
  ADD,
  UPDATE,
  KubeConfig,
  KubernetesObjectApi,
  makeInformer,
  PatchStrategy,
  RbacAuthorizationV1Api,
  setHeaderOptions,
  VersionApi,
  Watch,
} from '@kubernetes/client-node';

const namespace = 'default';
const gadgets = { group: 'example.org', version: 'v1', namespace, plural: 'gadgets' };

const saw = (...words) => console.log(...words.map((word) => (typeof word === 'string' ? word : JSON.stringify(word))));

const configMap = (name, labels, data) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace, labels },
  data,
});

const gadget = (name, spec) => ({
  apiVersion: 'example.org/v1',
  kind: 'Gadget',
  metadata: { name, namespace },
  spec,
});

const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'gadgets.example.org' },
  spec: {
    group: 'example.org',
    scope: 'Namespaced',
    names: { plural: 'gadgets', singular: 'gadget', kind: 'Gadget', listKind: 'GadgetList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', properties: { size: { type: 'integer', maximum: 9, _default: 1 } } },
              status: { type: 'object', properties: { phase: { type: 'string' } } },
            },
          },
        },
      },
    ],
  },
};

async function refused(call) {
  try {
    await call();
  } catch (error) {
    if (!(error instanceof ApiException)) throw error;
    const body = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    return `${error.code} ${body.reason}`;
  }
  throw new Error('it was not refused');
}

async function eventually(what, holds) {
  for (let attempt = 0; attempt < 600; attempt++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`never: ${what}`);
}

async function useClient(config) {
  const core = config.makeApiClient(CoreV1Api);
  const created = await core.createNamespacedConfigMap({
    namespace,
    body: configMap('one', { app: 'node' }, { key: 'value' }),
  });
  saw('created', created.metadata.name, created.data, created.metadata.creationTimestamp instanceof Date);
  saw('refused', await refused(() => core.createNamespacedConfigMap({ namespace, body: configMap('one') })));
  saw('refused', await refused(() => core.readNamespacedConfigMap({ namespace, name: 'nobody' })));
  const stale = await core.readNamespacedConfigMap({ namespace, name: 'one' });
  await core.replaceNamespacedConfigMap({ namespace, name: 'one', body: { ...created, data: { key: 'second' } } });
  saw('refused', await refused(() => core.replaceNamespacedConfigMap({ namespace, name: 'one', body: stale })));
  const patches = [
    [PatchStrategy.JsonPatch, [{ op: 'add', path: '/data/json', value: '1' }]],
    [PatchStrategy.MergePatch, { data: { merge: '1' } }],
    [PatchStrategy.StrategicMergePatch, { data: { strategic: '1' } }],
  ];
  for (const [strategy, body] of patches) {
    await core.patchNamespacedConfigMap({ namespace, name: 'one', body }, setHeaderOptions('Content-Type', strategy));
  }
  saw('patched', (await core.readNamespacedConfigMap({ namespace, name: 'one' })).data);
  for (const number of [0, 1, 2]) {
    await core.createNamespacedConfigMap({ namespace, body: configMap(`page-${number}`, { app: 'pages' }) });
  }
  const first = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app=pages', limit: 2 });
  const rest = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app=pages', _continue: first.metadata._continue });
  const names = (list) => list.items.map((item) => item.metadata.name);
  saw('pages', names(first), names(rest));
  saw('by field', names(await core.listNamespacedConfigMap({ namespace, fieldSelector: 'metadata.name=one' })));
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'app=pages' });

  await define(config);
  const custom = config.makeApiClient(CustomObjectsApi);
  saw('defaulted', (await custom.createNamespacedCustomObject({ ...gadgets, body: gadget('one', {}) })).spec);
  saw('refused', await refused(() => custom.createNamespacedCustomObject({ ...gadgets, body: gadget('big', { size: 10 }) })));
  const status = await custom.patchNamespacedCustomObjectStatus(
    { ...gadgets, name: 'one', body: { status: { phase: 'Ready' }, spec: { size: 5 } } },
    setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
  );
  saw('status', status.spec, status.status);

  // What does not know the kinds beforehand asks for them.
  const objects = KubernetesObjectApi.makeApiClient(config);
  const applied = await objects.patch(gadget('two', { size: 3 }), undefined, undefined, 'node', true, PatchStrategy.ServerSideApply);
  saw('applied', applied.spec, applied.metadata.managedFields[0].operation);
  saw('refused', await refused(() => objects.patch(gadget('two', { size: 4 }), undefined, undefined, 'other', false, PatchStrategy.ServerSideApply)));
  saw('read', (await objects.read(gadget('two'))).spec);
  saw('listed', (await objects.list('example.org/v1', 'Gadget', namespace)).items.length);
  await objects.delete(gadget('two'));

  const apps = config.makeApiClient(AppsV1Api);
  const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'web', image: 'web:1' }] } };
  const deployment = { metadata: { name: 'web' }, spec: { selector: { matchLabels: { app: 'web' } }, template } };
  await apps.createNamespacedDeployment({ namespace, body: deployment });
  const scale = await apps.readNamespacedDeploymentScale({ namespace, name: 'web' });
  scale.spec.replicas = 4;
  saw('scaled', (await apps.replaceNamespacedDeploymentScale({ namespace, name: 'web', body: scale })).spec.replicas);
  saw('version', (await config.makeApiClient(VersionApi).getCode()).major);
  await useToken(config, core);
}

async function useToken(config, core) {
  await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name: 'robot' } } });
  const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list'] }];
  const rbac = config.makeApiClient(RbacAuthorizationV1Api);
  await rbac.createNamespacedRole({ namespace, body: { metadata: { name: 'robot' }, rules } });
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'robot' };
  const subjects = [{ kind: 'ServiceAccount', name: 'robot', namespace }];
  await rbac.createNamespacedRoleBinding({ namespace, body: { metadata: { name: 'robot' }, roleRef, subjects } });
  const request = await core.createNamespacedServiceAccountToken({
    namespace,
    name: 'robot',
    body: { spec: { audiences: [], expirationSeconds: 600 } },
  });
  const inside = new KubeConfig();
  inside.loadFromClusterAndUser({ ...config.getCurrentCluster(), name: 'c' }, { name: 'robot', token: request.status.token });
  const robot = inside.makeApiClient(CoreV1Api);
  await robot.listNamespacedConfigMap({ namespace });
  const who = await inside.makeApiClient(AuthenticationV1Api).createSelfSubjectReview({ body: {} });
  saw('who', who.status.userInfo.username);
  saw('refused', await refused(() => robot.listNamespacedSecret({ namespace })));
}

async function define(config) {
  const extensions = config.makeApiClient(ApiextensionsV1Api);
  await extensions.createCustomResourceDefinition({ body: definition });
  await eventually('the definition is established', async () => {
    const { status } = await extensions.readCustomResourceDefinition({ name: 'gadgets.example.org' });
    return status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True');
  });
}

async function useWatch(config) {
  await define(config);
  const custom = config.makeApiClient(CustomObjectsApi);
  const list = await custom.listNamespacedCustomObject(gadgets);
  const seen = [];
  let told;
  const all = new Promise((resolve) => (told = resolve));
  const options = { resourceVersion: list.metadata.resourceVersion, allowWatchBookmarks: true };
  const request = await new Watch(config).watch(
    '/apis/example.org/v1/namespaces/default/gadgets',
    options,
    (kind, object) => {
      if (kind !== 'BOOKMARK') seen.push(`${kind} ${object.metadata.name} ${object.spec.size}`);
      if (kind === 'DELETED') told();
    },
    (error) => {
      if (error && error.name !== 'AbortError') throw error;
    },
  );
  await custom.createNamespacedCustomObject({ ...gadgets, body: gadget('one', { size: 1 }) });
  await custom.patchNamespacedCustomObject(
    { ...gadgets, name: 'one', body: { spec: { size: 2 } } },
    setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
  );
  await custom.deleteNamespacedCustomObject({ ...gadgets, name: 'one' });
  await all;
  request.abort();
  seen.forEach((line) => saw(line));
}

async function useInformer(config) {
  const core = config.makeApiClient(CoreV1Api);
  const labels = { informed: 'yes' };
  await core.createNamespacedConfigMap({ namespace, body: configMap('before', labels) });
  const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: 'informed=yes' });
  const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list, 'informed=yes');
  const seen = [];
  for (const [event, word] of [[ADD, 'added'], [UPDATE, 'updated'], [DELETE, 'deleted']]) {
    informer.on(event, (object) => seen.push(`${word} ${object.metadata.name}`));
  }
  informer.on(ERROR, (error) => {
    if (error.name !== 'AbortError') throw error;
  });
  await informer.start();
  const next = async () => {
    await eventually('something happens', () => seen.length > 0);
    saw(seen.shift());
  };
  await next();
  await core.createNamespacedConfigMap({ namespace, body: configMap('during', labels) });
  await next();
  await core.patchNamespacedConfigMap(
    { namespace, name: 'during', body: { data: { key: 'value' } } },
    setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
  );
  await next();
  await core.deleteNamespacedConfigMap({ namespace, name: 'before' });
  await next();
  saw('left', informer.list(namespace).map((object) => object.metadata.name));
  await informer.stop();
}

const scenarios = { client: useClient, watch: useWatch, informer: useInformer };
const scenario = scenarios[process.argv[2]];
if (!scenario) throw new Error(`say one of ${Object.keys(scenarios).join(', ')}`);
const config = new KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);
await scenario(config);
