// The brain as a whole: models, tools, maintenance, signing in.
import { client, unwrap } from '../api/client';

export function listModels() {
  return unwrap(client.GET('/api/models'));
}

export function listTools() {
  return unwrap(client.GET('/api/tools'));
}

export async function reconnectTool(namespace: string): Promise<void> {
  await unwrap(
    client.POST('/api/tools/{namespace}/reconnect', { params: { path: { namespace } } }),
  );
}

export async function maintenanceEnabled(): Promise<boolean> {
  return (await unwrap(client.GET('/api/maintenance'))).enabled;
}

export async function setMaintenance(enabled: boolean): Promise<boolean> {
  return (await unwrap(client.PUT('/api/maintenance', { body: { enabled } }))).enabled;
}

export function reembedStatus() {
  return unwrap(client.GET('/api/maintenance/reembed'));
}

export function startReembed() {
  return unwrap(client.POST('/api/maintenance/reembed'));
}

export async function signIn(token: string): Promise<void> {
  await unwrap(client.POST('/api/login', { body: { token } }));
}
