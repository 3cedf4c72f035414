"""Chats: storage, validation, attachments, locks, titles, transfer."""
