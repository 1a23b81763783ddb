"""An example backend: users chat with an echo agent, and Backscroll keeps, finds and reopens what was said."""
