"""One message, from request to stored answer."""
