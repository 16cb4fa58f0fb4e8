"""What people read: findings as pictures and files, the book, the pages of results, the state of the evidence."""
