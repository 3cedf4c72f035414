// Chats as the brain keeps them.
import { client, unwrap } from '../api/client';
import type { ChatChange, ChatExport, ChatInfo, SearchHit } from '../api/types';
import type { Message } from '../api/wire';

export function listChats(cursor?: string) {
  return unwrap(client.GET('/api/chats', { params: { query: cursor ? { cursor } : {} } }));
}

export async function createChat(): Promise<string> {
  return (await unwrap(client.POST('/api/chats'))).id;
}

export function changeChat(id: string, change: ChatChange): Promise<ChatInfo> {
  return unwrap(client.PUT('/api/chats/{id}', { params: { path: { id } }, body: change }));
}

export function generateTitle(id: string): Promise<ChatInfo> {
  return unwrap(client.POST('/api/chats/{id}/title', { params: { path: { id } } }));
}

export async function deleteChat(id: string, remember: boolean): Promise<void> {
  const query = remember ? {} : { remember: false };
  await unwrap(client.DELETE('/api/chats/{id}', { params: { path: { id }, query } }));
}

export async function loadMessages(id: string): Promise<Message[]> {
  const messages = await unwrap(client.GET('/api/chats/{id}/chat', { params: { path: { id } } }));
  return messages as unknown as Message[];
}

/** Cut the history before `index`; `expectedLength` lets the server refuse a stale page. */
export async function truncate(id: string, index: number, expectedLength: number): Promise<void> {
  await unwrap(
    client.DELETE('/api/chats/{id}/messages/{index}', {
      params: { path: { id, index: String(index) }, query: { expectedLength } },
    }),
  );
}

export function fork(id: string, index: number, expectedLength: number): Promise<ChatInfo> {
  return unwrap(
    client.POST('/api/chats/{id}/fork/{index}', {
      params: { path: { id, index: String(index) }, query: { expectedLength } },
    }),
  );
}

export function importChat(file: ChatExport): Promise<ChatInfo> {
  return unwrap(client.POST('/api/chats/import', { body: file }));
}

export function exportAddress(id: string): string {
  return `/api/chats/${encodeURIComponent(id)}/export`;
}

export function searchChats(
  q: string,
  cursor?: string,
): Promise<{ hits: SearchHit[]; nextCursor?: string }> {
  return unwrap(
    client.GET('/api/search', { params: { query: { q, limit: 20, ...(cursor && { cursor }) } } }),
  );
}
