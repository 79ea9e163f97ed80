"""What only reads: for the faces, and for verbs that look before they write."""
