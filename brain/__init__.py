"""The brain: owns every piece of content, from chats and personas to the long-term memory."""
