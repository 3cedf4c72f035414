def render_reference(document: bytes) -> str:
    return ""
