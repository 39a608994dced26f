"""What every HTTP answer shares: problems, language, security headers, body limits, cursors."""
