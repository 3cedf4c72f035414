// Chats as the brain keeps them.
import { client, unwrap } from '../api/client';
import type { ChatChange, ChatInfo, Message, SearchHit } from '../api/types';

/** A page of chats; `archived` lists those that were put out of the way as well. */
export function listChats(cursor?: string, include?: 'archived') {
  const query = { ...(cursor && { cursor }), ...(include && { include }) };
  return unwrap(client.GET('/api/chats', { params: { query } }));
}

export async function createChat(): Promise<string> {
  return (await unwrap(client.POST('/api/chats'))).id;
}

export function changeChat(id: string, change: ChatChange): Promise<ChatInfo> {
  return unwrap(
    client.PUT('/api/chats/{chat_id}', { params: { path: { chat_id: id } }, body: change }),
  );
}

export function generateTitle(id: string): Promise<ChatInfo> {
  return unwrap(client.POST('/api/chats/{chat_id}/title', { params: { path: { chat_id: id } } }));
}

export async function deleteChat(id: string, remember: boolean): Promise<void> {
  const query = remember ? {} : { remember: 'false' as const };
  await unwrap(client.DELETE('/api/chats/{chat_id}', { params: { path: { chat_id: id }, query } }));
}

export async function loadMessages(id: string): Promise<Message[]> {
  const path = { chat_id: id };
  return (await unwrap(client.GET('/api/chats/{chat_id}/chat', { params: { path } }))) as Message[];
}

/** Fails with 404 when there is no such chat: reading its whole history does not tell. */
export async function assertExists(id: string): Promise<void> {
  const params = { path: { chat_id: id }, query: { limit: 1 } };
  await unwrap(client.GET('/api/chats/{chat_id}/messages', { params }));
}

/** Cut the history before `index`; `expectedLength` lets the server refuse a stale page. */
export async function truncate(id: string, index: number, expectedLength: number): Promise<void> {
  await unwrap(
    client.DELETE('/api/chats/{chat_id}/messages/{index}', {
      params: { path: { chat_id: id, index }, query: { expectedLength } },
    }),
  );
}

export function fork(id: string, index: number, expectedLength: number): Promise<ChatInfo> {
  return unwrap(
    client.POST('/api/chats/{chat_id}/fork/{index}', {
      params: { path: { chat_id: id, index }, query: { expectedLength } },
    }),
  );
}

/** Import what a file holds; the server says whether it is an exported chat. */
export function importChat(file: unknown): Promise<ChatInfo> {
  return unwrap(client.POST('/api/chats/import', { body: file as never }));
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
