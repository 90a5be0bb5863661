// The greeter, on the TypeScript SDK: a function whose every visible deed a test can check.
//
// The Go and Python greeters do exactly the same under their own names; docs/peers.md says what that is.
// It is plain JavaScript so that setting it up needs no compiler.

import {
  fatal,
  fromCompose,
  FunctionRunner,
  getInput,
  getObservedCompositeResource,
  getRequiredResource,
  newGrpcServer,
  normal,
  Ready,
  requireResource,
  Resource,
  setContextKey,
  setDesiredComposedResources,
  setDesiredCompositeStatus,
  Status,
} from '@crossplane-org/function-sdk-typescript';
import { ServerCredentials } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pino } from 'pino';

const LANGUAGE = 'typescript';
// The requirement under which an operation of a WatchOperation is given what changed.
const WATCHED = 'ops.crossplane.io/watched-resource';

function compose(req, rsp) {
  const spec = getObservedCompositeResource(req)?.resource?.spec ?? {};
  // An operation observes nothing, and applies what has a name.
  const isOperation = req.observed?.composite === undefined;
  if ((isOperation ? getInput(req)?.fail : spec.fail) === LANGUAGE) {
    fatal(rsp, `${LANGUAGE} was told to fail`);
    return rsp;
  }
  const replicas = getInput(req)?.replicas ?? 1;

  const data = { greeting: `${spec.greeting ?? 'hello'} from ${LANGUAGE}`, replicas: String(replicas) };
  // Absent on the first call: the plane fetches the settings only after the response asks for them.
  const [settings] = getRequiredResource(req, 'settings');
  const theme = settings[0]?.resource?.data?.theme;
  if (theme !== undefined) {
    data.theme = theme;
  }

  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', data };
  if (isOperation) {
    configMap.metadata = { name: `greeting-${LANGUAGE}`, namespace: getInput(req)?.namespace ?? 'default' };
  }
  setDesiredComposedResources(rsp, {
    [LANGUAGE]: Resource.fromPartial({ resource: configMap, ready: Ready.READY_TRUE }),
  });
  if (isOperation) {
    rsp.output = { greetedBy: LANGUAGE, replicas };
    const metadata = getRequiredResource(req, WATCHED)[0][0]?.resource?.metadata;
    if (metadata !== undefined) {
      Object.assign(rsp.output, { watched: metadata.name, isGone: metadata.deletionTimestamp !== undefined });
    }
  } else {
    setDesiredCompositeStatus({ rsp, status: { greetedBy: { [LANGUAGE]: true } } });
  }
  normal(rsp, `greeted from ${LANGUAGE}`);
  rsp.conditions.push({ type: 'GreetedTypescript', status: Status.STATUS_CONDITION_TRUE, reason: 'Greeted' });
  setContextKey(rsp, `greeter.ferroplane.io/${LANGUAGE}`, { replicas });
  requireResource(rsp, 'settings', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    matchName: 'settings',
    namespace: 'default',
  });
  return rsp;
}

/** Not the SDK's own credentials: those let callers in that show no certificate. */
function credentials({ insecure, 'tls-certs-dir': directory }) {
  if (insecure) {
    return ServerCredentials.createInsecure();
  }
  if (!directory) {
    throw new Error('neither --insecure nor --tls-certs-dir was given');
  }
  const read = (name) => readFileSync(join(directory, name));
  const pair = { private_key: read('tls.key'), cert_chain: read('tls.crt') };
  return ServerCredentials.createSsl(read('ca.crt'), [pair], true);
}

const { values: options } = parseArgs({
  options: {
    address: { type: 'string', default: '0.0.0.0:9443' },
    insecure: { type: 'boolean', default: false },
    'tls-certs-dir': { type: 'string', default: process.env.TLS_SERVER_CERTS_DIR },
  },
});

const logger = pino();
const server = newGrpcServer(new FunctionRunner(fromCompose(compose), logger), logger);
server.bindAsync(options.address, credentials(options), (error) => {
  if (error) {
    throw error;
  }
});
process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
