"""What Go's libraries say and how they read: texts, messages, servers, errors."""
