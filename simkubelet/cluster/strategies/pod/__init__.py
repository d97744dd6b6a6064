"""What an API server fills into pods and their templates, drops from them and refuses of them."""
